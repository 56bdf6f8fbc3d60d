"""What is explained: the model, its text, and the notation that names its matrices.

The numbers are the same in all of them. Ours, and those of the model's tensors, have a token a row; a notation whose
tokens are columns writes every matrix transposed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.attention.choice import require_place
from tfcli.inspection.explain import Matrix, MatrixKind, NotationName
from tfcli.inspection.passes import (
    AttentionPass,
    LayerPass,
    ModelPass,
    chosen_kinds,
    key_ids,
    query_ids,
    read_text,
    record_model,
)
from tfcli.layers.attention import Span
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.models.build import build_model
from tfcli.models.transformer import Decoder, Encoder, Stack, Transformer
from tfcli.recipe.model import Architecture, AttentionScore, ModelSection, NormPlacement
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class Words:
    """How a toy's text becomes numbers: its vocabulary, the id of each of its words, and where E and R are.

    Shape:
        table: (|V|, D); positions: (T, D)
    """

    vocabulary: tuple[str, ...]
    ids: Tensor
    table: Tensor
    positions: Tensor


@dataclass(frozen=True)
class Subject:
    """One layer of a model that has read a text.

    Args:
        label: what is explained, in a few words.
        attention, attention_pass: that of the layer that is explained, its own or the one across.
        inputs: the ids that the model has read.
        words: of a toy.
    """

    label: str
    model: Transformer
    passed: ModelPass
    inputs: tuple[Tensor, ...]
    layer: TransformerLayer
    layer_pass: LayerPass
    attention: MultiHeadAttention
    attention_pass: AttentionPass
    signal: PositionSignal
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    words: Words | None = None

    @property
    def section(self) -> ModelSection:
        """The model's shape."""
        return self.model.section

    @property
    def has_projections(self) -> bool:
        """Whether queries, keys and values are more than X itself."""
        return self.section.attention_score != "parameter_free"

    def require_sublayers_in_turn(self) -> None:
        """Refuse, by a `UsageError`, a layer whose sublayers read the same vectors."""
        if self.section.parallel_residual:
            raise UsageError(
                "With model.parallel_residual = true attention and feed-forward stand side by side, and this picture "
                "has them one after the other",
                "see `tfcli explain attention`, or name another run",
            )

    @property
    def is_plain(self) -> bool:
        """Whether attention is softmax(XXᵀ)X and nothing else."""
        return not self.has_projections and self.attention.num_heads == 1

    @property
    def is_cross(self) -> bool:
        """Whether keys and values are those of another text."""
        return self.attention.cross

    def heads(self, head: int | None) -> Sequence[int]:
        """The head that is asked for; without one all of a toy, and the first of a run.

        Raises:
            UsageError: there is no such head.
        """
        total = self.attention.num_heads
        require_place("head", head, total)
        return range(total) if head is None and self.words is not None else (head or 0,)


EXAMPLE = "Lucas will travel"
"""INF721's own, with d_model = 9 and three heads."""

MOST_WORDS = 64
_SPREAD = 2.0
"""Standard deviation of the weights times √D: scores then differ enough for a softmax that prefers something."""


def toy(
    text: str = EXAMPLE,
    *,
    architecture: Architecture = "encoder",
    d_model: int = 9,
    heads: int = 3,
    score: AttentionScore = "scaled_dot",
    norm_placement: NormPlacement = "post",
    seed: int = 0,
) -> Subject:
    """One layer as Vaswani et al. 2017 have it, on the words of a text.

    Raises:
        UsageError: the text has no words or too many, or the heads do not divide d_model.
    """
    words = toy_words(text)
    if d_model % heads:
        raise UsageError(f"--d-model {d_model} is not divisible by --heads {heads}", "choose a multiple")
    vocabulary = tuple(dict.fromkeys(words))
    if len(vocabulary) == 1:
        vocabulary += ("<unk>",)  # a model has two tokens at least
    section = ModelSection(
        architecture=architecture,
        vocab_size=len(vocabulary),
        max_seq_len=max(2, len(words)),
        d_model=d_model,
        num_layers=1,
        num_heads=heads,
        positions="sinusoidal",
        scale_embeddings=False,
        norm="layernorm",
        norm_placement=norm_placement,
        attention_score=score,
        activation="relu",
        initialization="bert",
        init_std=_SPREAD / d_model**0.5,
    )
    label = f"a toy {architecture} with random weights of seed {seed}: d_model {d_model}, heads {heads}"
    return drawn(section, words, vocabulary, label, seed)


def toy_words(text: str) -> tuple[str, ...]:
    """The words of a text, which are the tokens of a toy.

    Raises:
        UsageError: there are none, or too many.
    """
    words = tuple(text.split())
    if not words:
        raise UsageError("The text is empty", "give a few words")
    if len(words) > MOST_WORDS:
        raise UsageError(f"The text has {len(words)} words, and a toy reads at most {MOST_WORDS}", "shorten it")
    return words


def drawn(
    section: ModelSection, words: tuple[str, ...], vocabulary: tuple[str, ...], label: str, seed: int = 0
) -> Subject:
    """The first layer of a model with one stack whose positions are added to the embeddings, weights drawn from a
    seed, reading words."""
    model = build_model(section, seed).eval()
    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    with torch.inference_mode():
        passed = record_model(model, [ids])
    assert isinstance(model, Encoder | Decoder) and isinstance(model.stack, Stack)
    layer, layer_pass = model.stack.layers[0], passed.last.layers[0]
    assert isinstance(layer, TransformerLayer)
    return Subject(
        label=label,
        model=model,
        passed=passed,
        inputs=(ids,),
        layer=layer,
        layer_pass=layer_pass,
        attention=layer.attention,
        attention_pass=layer_pass.attention,
        signal=NO_SIGNAL,
        query_tokens=words,
        key_tokens=words,
        words=Words(vocabulary, ids[0], model.embedding.weight, model.embedding.positions[: len(words)]),
    )


def of_run(
    run: LoadedRun, text: str, *, target: str | None = None, kind: AttentionKind | None = None, layer: int = 0
) -> Subject:
    """One layer of a run, on what it reads of a text; of an encoder-decoder without `kind`, of the decoder's own.

    Raises:
        UsageError: the run has no such layer or no such attention, or the text is empty or too long.
    """
    kinds = chosen_kinds(run, kind)
    kind = "decoder_self" if "decoder_self" in kinds else kinds[0]
    if not text.strip():
        raise UsageError("The text is empty", "give a few words")
    inputs = read_text(run, text, target)
    side = "encoder" if kind == "encoder_self" else "decoder"
    stack = getattr(run.model, side if run.architecture == "encoder-decoder" else "stack")
    assert isinstance(stack, Stack)
    require_place("layer", layer, len(stack.layers))
    tensors = inputs.tensors(run.device)
    with torch.inference_mode():
        passed = record_model(run.model, tensors)
    module = stack.layers[layer]
    assert isinstance(module, TransformerLayer)
    layer_pass: LayerPass = getattr(passed, side).layers[layer]
    attention = module.cross_attention if kind == "cross" else module.attention
    attention_pass = layer_pass.cross if kind == "cross" else layer_pass.attention
    assert attention is not None and attention_pass is not None
    queries, keys = query_ids(kind, inputs), key_ids(kind, inputs)
    return Subject(
        label=f"{run.directory.path}, layer {layer}, {kind}",
        model=run.model,
        passed=passed,
        inputs=tuple(tensors),
        layer=module,
        layer_pass=layer_pass,
        attention=attention,
        attention_pass=attention_pass,
        signal=NO_SIGNAL if kind == "cross" else stack.positions(Span(0, len(queries))),
        query_tokens=tuple(run.tokenizer.labels(queries)),
        key_tokens=tuple(run.tokenizer.labels(keys)),
    )


Axis = Literal["tokens", "vocab", "model", "head", "heads", "joined", "shared", "inner", "one"]
"""N; |V|; D; Dh; H; H · Dh; Hkv · Dh; F; 1."""

Axes = tuple[Axis, Axis]
VECTORS: Axes = ("tokens", "model")
PAIRS: Axes = ("tokens", "tokens")
"""Of queries and keys."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Notation:
    """One lecture's way of writing.

    Args:
        axes: the symbol of every axis.
        names: the symbol of every quantity.
        formulas: what a step computes.
        scores: the formula of each attention score.
        slips: what the lecture prints otherwise than it computes, by topic.
        root: what scaled scores are divided by.
        columns_are_tokens: every matrix stands transposed.
        turned: the quantities that stand transposed.
    """

    name: NotationName
    axes: Mapping[Axis, str]
    names: Mapping[str, str]
    formulas: Mapping[str, str]
    scores: Mapping[str, str]
    slips: Mapping[Literal["attention", "layer"], Sequence[str]]
    root: str
    columns_are_tokens: bool
    turned: frozenset[str]

    def symbol(self, quantity: str, head: int | None = None) -> str:
        """How a quantity is called, of one head where it has one for each."""
        number = "" if head is None else str(head)
        sub, sup = number.translate(_SUBSCRIPTS), f"⁽{number.translate(_SUPERSCRIPTS)}⁾" if number else ""
        return self.names[quantity].format(sub=sub, sup=sup)

    def matrix(
        self,
        quantity: str,
        values: Tensor,
        rows: Sequence[str],
        columns: Sequence[str],
        axes: Axes,
        *,
        head: int | None = None,
        kind: MatrixKind = "signed",
        sums: bool = False,
    ) -> Matrix:
        """A quantity as this notation writes it, from how our tensors hold it.

        Shape:
            values: (R, C), with a token a row where rows are tokens
        """
        turned = self.columns_are_tokens or quantity in self.turned
        labels, symbols = (tuple(rows), tuple(columns)), (self.axes[axes[0]], self.axes[axes[1]])
        if turned:
            values, labels, symbols = values.T, labels[::-1], symbols[::-1]
        return Matrix(
            self.symbol(quantity, head),
            frozen(values.detach().float().cpu().numpy()),
            *labels,
            symbols,
            kind,
            ("columns" if turned else "rows") if sums else None,
        )

    def vectors(self, quantity: str, values: Tensor, tokens: Sequence[str], axes: Axes = VECTORS) -> Matrix:
        """A quantity with a vector a token, whose dimensions are numbered.

        Shape:
            values: (T, C)
        """
        return self.matrix(quantity, values, tokens, numbered(values.shape[1]), axes)


def numbered(size: int) -> tuple[str, ...]:
    """Labels of dimensions, from 0."""
    return tuple(map(str, range(size)))


@cache
def lectures() -> dict[str, Any]:
    """What `notations.toml` holds."""
    return tomllib.loads((files(__package__) / "notations.toml").read_text("utf-8"))


@cache
def notation(name: NotationName) -> Notation:
    """A lecture's notation by its name."""
    place, tables = get_args(NotationName).index(name), lectures()
    columns: dict[str, Any] = {
        table: {key: spellings[place] for key, spellings in tables[table].items()}
        for table in ("axes", "names", "formulas", "scores", "slips")
    }
    turned = frozenset({"w_output"} if name == "cs224n" else ())
    return Notation(name, **columns, root=tables["root"][place], columns_are_tokens=name == "udl", turned=turned)
