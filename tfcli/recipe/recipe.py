"""A recipe: the sections together, and the rules that hold between them."""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, NamedTuple, get_type_hints

from annotated_types import Ge, Gt, Le, Unit

from tfcli.errors import UsageError
from tfcli.recipe import Section
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection


@dataclass(frozen=True)
class CheckSection(Section):
    """Limits that `tfcli run --check` demands of the trained model's evaluation."""

    max_loss: Annotated[float, Gt(0), Unit("nats")] | None = None
    """Largest validation loss, nats a token."""

    min_accuracy: Annotated[float, Gt(0), Le(1), Unit("share")] | None = None
    """Smallest share of masked tokens predicted right, 0 to 1."""

    min_bleu: Annotated[float, Gt(0), Le(100)] | None = None
    """Smallest BLEU, 0 to 100."""

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
class InspectSection(Section):
    """An attention table and the positional encoding, shown at the end of a recipe."""

    attention: str | None = None
    """The text whose attention is shown. None: no table."""

    target: str | None = None
    """The target text of an encoder-decoder. None: its own greedy output."""

    layer: Annotated[int, Ge(0)] | None = None
    """Layer of the table, from 0. None: that of the head that attends farthest, the first token and the neighbours
    aside."""

    head: Annotated[int, Ge(0)] | None = None
    """Head of the table, from 0. None: chosen as the layer is."""

    positions: Annotated[int, Ge(0), Unit("positions")] = 0
    """How many positions of the positional encoding to show; 0: none. In a terminal, the command that shows them is
    named."""


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
    inspect: InspectSection = field(default_factory=InspectSection)
    check: CheckSection = field(default_factory=CheckSection)
    result: ResultSection = field(default_factory=ResultSection)
    origin: OriginSection = field(default_factory=OriginSection)

    def __post_init__(self) -> None:
        model, data, train = self.model, self.data, self.train
        context = train.context
        if context is not None and context > model.max_seq_len:
            problem = f"train.context = {context} is longer than model.max_seq_len = {model.max_seq_len}"
            raise UsageError(problem, "shorten train.context or raise model.max_seq_len")
        tokens, needed = train.batch_tokens, self.context
        if tokens is not None and tokens < needed and model.architecture != "encoder-decoder":
            problem = f"train.batch_tokens = {tokens} cannot hold one window of train.context = {needed} tokens"
            raise UsageError(problem, f"raise train.batch_tokens to {needed} or more, or shorten train.context")
        if train.windows is not None and model.architecture == "encoder-decoder":
            problem = f"train.windows = {train.windows!r} says how text is cut, and an encoder-decoder reads pairs"
            raise UsageError(problem, "leave train.windows out")
        average, keep = train.average_checkpoints, train.keep_checkpoints
        if average == 1:
            raise UsageError("train.average_checkpoints = 1 averages nothing", "set 0, or 2 and more")
        if average > keep:
            problem = f"train.average_checkpoints = {average} is more than train.keep_checkpoints = {keep}"
            raise UsageError(problem, f"keep {average} or more")
        if average > 1 and not train.save_every:
            raise UsageError(
                f"train.average_checkpoints = {average} needs several checkpoints, and train.save_every = 0 makes one",
                "set train.save_every",
            )
        if data.split == "file" and data.validation is None:
            raise UsageError("data.split = 'file' needs data.validation", "name the file of the validation part")
        if data.validation is not None and data.split in ("hash", "tail"):
            problem = f"data.validation names a file, but data.split = {data.split!r}"
            raise UsageError(problem, "leave one of the two out")

    @property
    def context(self) -> int:
        """The context length: tokens that the model reads at once, in training and scoring."""
        return self.train.context or self.model.max_seq_len

    @property
    def is_imported(self) -> bool:
        """Whether it is of a run that `tfcli import` made, whose stages happened elsewhere."""
        return self.origin != OriginSection()

    def resolved(self) -> "Recipe":
        """The recipe with every setting that follows from another one written out.

        What depends on the machine or on the trained tokenizer is filled in by the training stage.
        """
        pairs = self.model.architecture == "encoder-decoder"
        smoothing = self.train.label_smoothing
        return replace(
            self,
            name=self.name or self.model.architecture,
            data=replace(self.data, source=self.data.source or ("builtin:pt-en" if pairs else "builtin:stories")),
            train=replace(
                self.train,
                context=self.context,
                label_smoothing=(0.1 if pairs else 0.0) if smoothing is None else smoothing,
            ),
        )


SECTIONS: dict[str, type] = {
    name: kind for name, kind in get_type_hints(Recipe).items() if isinstance(kind, type) and kind is not str
}


def known_keys() -> list[str]:
    """Every key a recipe may have, as ``section.field``."""
    top = [f.name for f in fields(Recipe) if f.name not in SECTIONS]
    return top + [f"{section}.{f.name}" for section, kind in SECTIONS.items() for f in fields(kind)]


DECIDED_BY_THE_RUN = (
    "tokenizer.path",
    "model.vocab_size",
    "train.windows",
    "train.batch_size",
    "train.batch_tokens",
    "train.evaluate_tokens",
    "train.device",
    "train.precision",
    "train.attention",
    "train.compile",
    "train.threads",
)
"""Settings that a recipe may leave open, and a run decides once and records."""


DECISIVE = ("tokenizer", "data", "model", "train")
"""Sections that say what is computed. The others shape only what is shown."""


class Change(NamedTuple):
    """A key, as ``section.field``, with its value before and after."""

    key: str
    before: Any
    after: Any


def changes_between(before: Recipe, after: Recipe) -> list[Change]:
    """Every setting on which two recipes differ."""
    values = [Change(key, setting(before, key), setting(after, key)) for key in known_keys()]
    return [change for change in values if change.before != change.after]


def setting(recipe: Recipe, key: str) -> Any:
    """The value of a key."""
    section, dot, name = key.rpartition(".")
    return getattr(getattr(recipe, section) if dot else recipe, name)


def first_difference(wanted: Recipe, recorded: Recipe) -> tuple[str, Any, Any] | None:
    """The first setting on which a run's recipe is not the wanted one, with both values.

    Settings that shape only what is shown may differ, and so may what the wanted recipe leaves for the run to decide.
    """
    for key, value, other in changes_between(wanted.resolved(), recorded.resolved()):
        left_open = key in DECIDED_BY_THE_RUN and value == setting(Recipe(), key)
        if key.partition(".")[0] in DECISIVE and not left_open:
            return key, value, other
    return None
