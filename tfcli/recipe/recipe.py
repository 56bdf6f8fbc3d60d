"""Recipes: one run as frozen dataclasses, with its text, its model, its training and its generation."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.errors import UsageError
from tfcli.recipe import Refusal, Section
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.recipe.evaluate import EvaluateSection
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection
from tfcli.records.heads import HeadPlace, read_head

BeyondContext = Literal["stop", "slide", "extrapolate"]


@dataclass(frozen=True)
class GenerateSection(Section):
    """Sampling, beam search, and what `tfcli run` shows after training."""

    prompts: tuple[str, ...] = ()
    """Prompts that `tfcli run` continues, fills or translates at the end. Without any, a decoder has an empty one."""

    chat: bool = False
    """Put every prompt into the chat template of an imported model, as what a user says."""

    system: str = ""
    """The system message, which stands before what the user says (with chat)."""

    special_tokens: bool = False
    """Read the spelling of a special token in a prompt as that token; otherwise it is plain text."""

    max_new_tokens: Annotated[int, Ge(1), Unit("tokens")] = 128
    """Stop after this many tokens, unless the end token comes first."""

    temperature: Annotated[float, Ge(0)] = 1.0
    """Divides the logits; 0 is greedy. An encoder-decoder is greedy unless a temperature is given."""

    top_k: Annotated[int, Ge(0), Unit("tokens")] = 0
    """Sample from the k most probable tokens only; 0: from all. For an encoder: tokens to show for each mask (0: 5)."""

    top_p: Annotated[float, Gt(0), Le(1), Unit("share")] = 1.0
    """Sample from the smallest set of tokens that holds this probability (Holtzman et al. 2020)."""

    min_p: Annotated[float, Ge(0), Le(1), Unit("share")] = 0.0
    """Sample from the tokens at least this share as probable as the best one (Nguyen et al. 2024); 0: all."""

    repetition_penalty: Annotated[float, Gt(0)] = 1.0
    """Divides the positive logits of tokens that the text holds already, and multiplies the negative ones (Keskar et
    al. 2019, section 4.1); beams multiply their log-probabilities; 1: none."""

    no_repeat_ngram: Annotated[int, Ge(0), Unit("tokens")] = 0
    """No sequence of this many tokens occurs twice in a text (Paulus et al. 2018, section 2.5); 0: any may."""

    stop: tuple[Annotated[str, MinLen(1)], ...] = ()
    """Stop texts: a generated text ends before the first of them."""

    prefix: str = ""
    """Text with which every translation of an encoder-decoder begins."""

    beyond_context: BeyondContext = "stop"
    """What happens when the context is full. stop: the text ends. slide: the model reads the last part of the text
    anew. extrapolate: it goes on with positions that training has not seen."""

    beam: Annotated[int, Ge(1), Le(1_000), Unit("beams")] = 1
    """Hypotheses kept by beam search; 1: none."""

    length_penalty: Annotated[float, Ge(0)] = 0.6
    """The α of Wu et al. 2016 (equation 14) for beams; 0 ranks by probability alone and favours short texts."""

    question: str = ""
    """What a run of train.task = "span" is asked of every prompt."""

    joint: bool = False
    """An encoder fills the mask first that it is surest of, and reads that before the next; else each on its own."""

    num_samples: Annotated[int, Ge(1), Le(10_000), Unit("texts")] = 1
    """Texts to generate for each prompt."""

    batch_size: Annotated[int, Ge(1), Le(10_000), Unit("prompts")] = 32
    """Prompts that are computed together, where there are several."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the sampling. A text depends only on it, its prompt and its number among samples, not on the batch."""


@dataclass(frozen=True)
class InspectSection(Section):
    """An attention table and the positional encoding, shown at the end of a recipe."""

    attention: str | None = None
    """The text whose attention is shown. None: no table."""

    target: str | None = None
    """The target text of an encoder-decoder. None: its own greedy output."""

    layer: Annotated[int, Ge(0)] | None = None
    """Layer of the table, from 0. None: that of the head that attends farthest, first token and neighbours aside."""

    head: Annotated[int, Ge(0)] | str | None = None
    """Head of the table as LAYER.HEAD, both from 0, such as "1.0"; a whole number is a head of `layer`, or of the layer
    that is chosen. None: chosen as the layer is."""

    positions: Annotated[int, Ge(0), Unit("positions")] = 0
    """How many positions of the positional encoding to show; 0: none. A terminal is told the command that does."""

    @property
    def place(self) -> HeadPlace:
        """The layer and the head of the table."""
        return read_head(self.layer, self.head, "inspect.layer", "inspect.head")

    def refusals(self) -> Iterator[Refusal]:
        """A head that is written differently, or is in another layer than the one that is named."""
        try:
            _ = self.place
        except UsageError as error:
            yield error.problem, error.remedy


@dataclass(frozen=True)
class CheckSection(Section):
    """Limits that `tfcli run --check` demands of the trained model's evaluation."""

    max_loss: Annotated[float, Gt(0), Unit("nats")] | None = None
    """Largest validation loss, in nats per token; with a task head, per text, word or span boundary."""

    min_accuracy: Annotated[float, Gt(0), Le(1), Unit("share")] | None = None
    """Smallest share of masked tokens predicted right, 0 to 1."""

    min_bleu: Annotated[float, Gt(0), Le(100)] | None = None
    """Smallest BLEU, 0 to 100, with the tokenization of evaluate.bleu_tokenize."""

    min_exact_match: Annotated[float, Gt(0), Le(1), Unit("share")] | None = None
    """Smallest share of validation pairs translated word for word, 0 to 1."""

    max_minutes: Annotated[float, Gt(0), Unit("minutes")] | None = None
    """Most minutes for the whole recipe."""


@dataclass(frozen=True)
class ResultSection(Section):
    """What the recipe reached when it was written: for the reader, never used."""

    reached: str = ""
    """The figures that it reached."""

    minutes: float | None = None
    """Minutes that the whole recipe took."""

    machine: str = ""
    """The machine it ran on."""

    date: str = ""
    """The day it ran, as YYYY-MM-DD."""


@dataclass(frozen=True)
class OriginSection(Section):
    """What `tfcli import` read. It stands in place of the stages, which happened elsewhere."""

    source: str = ""
    """The folder, or hf:owner/name, as it was given."""

    layout: str = ""
    """The family of the checkpoint: gpt2, bert, llama, …"""

    weights: str = ""
    """Fingerprint of all tensors as they were read."""

    ignored: tuple[str, ...] = ()
    """Settings of the checkpoint that it was read without, as --ignore-setting named them."""
    bos: str | None = None
    """The token that texts begin with, or none, where `--bos` named it."""


@dataclass(frozen=True)
class Recipe(Section):
    """One job, from text to a trained model and what is shown of it."""

    name: str = ""
    """A short name, used for the run directory: letters, digits, `.`, `_`, `-`; 100 at most."""

    description: str = ""
    """One line on what the recipe makes."""

    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: DataSection = field(default_factory=DataSection)
    model: ModelSection = field(default_factory=ModelSection)
    train: TrainSection = field(default_factory=TrainSection)
    generate: GenerateSection = field(default_factory=GenerateSection)
    evaluate: EvaluateSection = field(default_factory=EvaluateSection)
    inspect: InspectSection = field(default_factory=InspectSection)
    check: CheckSection = field(default_factory=CheckSection)
    result: ResultSection = field(default_factory=ResultSection)
    origin: OriginSection = field(default_factory=OriginSection)

    def refusals(self) -> Iterator[Refusal]:
        """What does not go together between sections, and in [train]."""
        model, data, train, needed = self.model, self.data, self.train, self.context
        if needed > model.max_seq_len:
            yield f"{train.context = } is longer than {model.max_seq_len = }", "shorten the one or raise the other"
        cuts = model.architecture != "encoder-decoder" and not self.reads_pairs
        if train.batch_tokens is not None and train.batch_tokens < needed and cuts:
            remedy = f"raise train.batch_tokens to {needed} or more, or shorten train.context"
            yield f"{train.batch_tokens = } cannot hold one window of train.context = {needed} tokens", remedy
        yield from self._of_objective()
        if train.windows is not None and self.reads_pairs:
            reader = "a decoder with train.completion_only" if train.completion_only else "an encoder-decoder"
            reads = f"{train.task = } reads one at a time" if train.task else f"{reader} reads pairs"
            yield f"{train.windows = } says how text is cut, and {reads}", "leave train.windows out"
        if train.document_masking and self.objective not in ("clm", "mlm"):
            other = "an encoder-decoder reads pairs" if self.objective == "seq2seq" else f"not {self.objective}"
            yield f"train.document_masking = true is for windows of several documents, and {other}", "leave it out"
        if train.average_checkpoints == 1:
            yield "train.average_checkpoints = 1 averages nothing", "set 0, or 2 and more"
        if train.average_checkpoints > train.keep_checkpoints:
            yield f"{train.average_checkpoints = } is more than {train.keep_checkpoints = }", "keep as many, or more"
        if train.average_checkpoints > 1 and not train.save_every:
            yield f"{train.average_checkpoints = } needs several, and {train.save_every = } makes one", "set the latter"
        if train.adapter and train.optimizer == "muon":
            yield f"{train.optimizer = } moves whole matrices, and train.adapter factors of them", "choose 'adamw'"
        if data.split == "file" and data.validation is None:
            yield "data.split = 'file' needs data.validation", "name the file of the validation part"
        if data.validation is not None and data.split in ("hash", "tail"):
            yield f"data.validation names a file, but {data.split = }", "leave one of the two out"

    def _of_objective(self) -> Iterator[Refusal]:
        """An objective of another architecture."""
        architecture, train = self.model.architecture, self.train
        readers = {"span-corruption": "encoder-decoder", "infilling": "encoder-decoder", "prefix": "decoder"}
        asked = {
            f"{train.objective = }": train.objective and readers[train.objective],
            "train.whole_words = true": train.whole_words and "encoder",
            "train.completion_only = true": train.completion_only and "decoder",
        }
        for key, reader in asked.items():
            if reader and reader != architecture:
                remedy = f"set model.architecture = {reader!r}, or leave it out"
                yield f"{key} is for the architecture {reader!r}, and this one is {architecture!r}", remedy
        if train.task is not None:
            yield from self._of_task()
        elif train.class_weights:
            yield "train.class_weights is for a task head, and there is none", "set train.task, too"
        if train.completion_only and train.objective is not None:
            yield f"{train.objective = } reads text, and train.completion_only pairs", "leave one of the two out"

    def _of_task(self) -> Iterator[Refusal]:
        """What does not go with a task head."""
        train, task = self.train, self.train.task
        if self.model.architecture == "encoder-decoder":
            remedy = "set model.architecture = 'encoder', or begin with an encoder: --init RUN"
            yield f"{train.task = } is for an encoder or a decoder, and this is an encoder-decoder", remedy
        asked = {
            f"{train.objective = }": train.objective,
            "train.whole_words = true": train.whole_words,
            "train.completion_only = true": train.completion_only,
            "data.sources": self.data.sources,
            "train.class_weights, which weighs labels,": task == "span" and train.class_weights,
            "train.label_smoothing, which spreads over labels,": task == "span" and train.label_smoothing,
            "model.labels": task == "span" and self.model.labels not in (None, SPAN_LABELS),
        }
        for key, given in asked.items():
            if given:
                yield f"{key} has no meaning with {train.task = }", "leave one of the two out"

    @property
    def objective(self) -> str:
        """What is minimised: what `train.task` or `train.objective` names, "completion", or the architecture's own."""
        train = self.train
        return train.task or train.objective or ("completion" if train.completion_only else self.model.objective)

    @property
    def reads_pairs(self) -> bool:
        """Whether it is trained on pairs, or on labelled texts, and not on text."""
        return self.train.task is not None or self.objective in ("seq2seq", "completion")

    @property
    def context(self) -> int:
        """The context length: tokens that the model reads at once, in training and scoring."""
        return self.train.context or self.model.max_seq_len

    @property
    def is_imported(self) -> bool:
        """Whether it is of a run that `tfcli import` made, whose stages happened elsewhere."""
        return self.origin != OriginSection()

    def resolved(self) -> "Recipe":
        """With all settings written out that follow from others; training fills in those of machine and tokenizer."""
        usual = 0.1 if self.objective == "seq2seq" else 0.0
        smoothing = usual if self.train.label_smoothing is None else self.train.label_smoothing
        own = None if self.data.sources else _OWN.get(self.objective, "builtin:stories")
        data = replace(self.data, source=self.data.source or own)
        train = replace(self.train, context=self.context, label_smoothing=smoothing)
        model = self.model
        if self.train.task is not None:  # one matrix of its own, with a bias a label
            model = replace(model, head="linear", head_bias=True, tie_embeddings=False, scale_logits=False)
        return replace(self, name=self.name or self.model.architecture, data=data, model=model, train=train)


SPAN_LABELS = ("first", "last")  # what the head for spans tells apart
_OWN = {"classify": "builtin:bank", "tag": "builtin:word-classes", "span": None}
_OWN |= {"seq2seq": "builtin:pt-en", "completion": "builtin:pt-en"}

SECTIONS: dict[str, type] = {name: type(one) for name, one in vars(Recipe()).items() if isinstance(one, Section)}


def known_keys() -> list[str]:
    """Every key a recipe may have, as ``section.field``."""
    top = [f.name for f in fields(Recipe) if f.name not in SECTIONS]
    return top + [f"{section}.{f.name}" for section, kind in SECTIONS.items() for f in fields(kind)]


_TRAIN = "windows batch_size batch_tokens evaluate_tokens device precision attention compile threads"
DECIDED_BY_THE_RUN = ("tokenizer.path", "model.vocab_size", "model.labels", *map("train.{}".format, _TRAIN.split()))
"""Settings that a recipe may leave open, and a run decides once and records."""

DECISIVE = ("tokenizer", "data", "model", "train")  # what is computed; other sections shape what is shown
