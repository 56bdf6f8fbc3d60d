"""Attention weights with the tokens they belong to: self-attention, cross-attention, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tfcli.inspection.embeddings import Word
from tfcli.records.generation import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]


@dataclass(frozen=True)
class AttentionTokens:
    """The queries and the keys of a kind of attention, as tokens or, of `words`, merged into these. The next token of a
    row is what its query looks for in a decoder: `next_tokens` has it for each query; () where none predicts.
    `next_predicted`: the text ends at the last query, and what is behind it is the model's likeliest."""

    kind: AttentionKind
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    next_tokens: tuple[str, ...] = field(default=(), kw_only=True)
    next_predicted: bool = field(default=False, kw_only=True)
    words: bool = field(default=False, kw_only=True)

    @property
    def asking(self) -> tuple[str, ...]:
        """What each row reads: a query; of those that predict, "query → next token", "?" behind the model's own."""
        return asking(self.query_tokens, self.next_tokens, predicted=self.next_predicted)

    def sides(self) -> dict[str, Any]:
        """The same for another record of these queries and keys."""
        return {one.name: getattr(self, one.name) for one in fields(AttentionTokens)}


def asking(queries: tuple[str, ...], nexts: tuple[str, ...], *, predicted: bool) -> tuple[str, ...]:
    """As `AttentionTokens.asking`."""
    marks = [*[""] * (len(nexts) - 1), "?" * predicted]
    return tuple(f"{own} → {after}{mark}" for own, after, mark in zip(queries, nexts, marks, strict=False)) or queries


@dataclass(frozen=True)
class AttentionRecord(AttentionTokens):
    """One kind of attention of one text. Shape: weights, scores, bias (L, H, T, S); mask (T, S)."""

    json_list: ClassVar = "records"
    weights: NDArray[np.float32]  # after the softmax: each row over the keys sums to 1
    focus: tuple[int, int] = (0, 0)  # the layer and the head to look at first
    scores: NDArray[np.float32] | None = None  # before the softmax and the mask, so of hidden keys too; None: not kept
    bias: NDArray[np.float32] | None = None  # what positions add to the scores; None: not kept, or nothing
    names: tuple[str, ...] = ()  # of the first axis where it is no layer's own heads: "layer 0, mean of 4 heads"
    query_positions: tuple[int, ...] = ()  # where they stand in their text; () for 0, 1, 2 …
    key_positions: tuple[int, ...] = ()
    formula: str = ""  # how this model makes scores
    mask: NDArray[np.bool_] | None = None  # True where a query of any head may look; None: where its weight is not 0
    query_words: tuple[Word, ...] = ()  # that the whole text's tokens spell; () for unknown
    key_words: tuple[Word, ...] = ()  # the same of the keys' text
    residuals: bool = True  # whether each layer's output is added to what it reads
    first: tuple[int, int] = (0, 0)  # the numbers of the first layer and head, where they were narrowed

    @property
    def telling(self) -> NDArray[np.bool_]:
        """Where a weight says something of the text: between words; in self-attention neither to the first of them, on
        which many heads rest, nor from a token to itself or to a neighbour, where many look whatever is there.
        Shape: (T, S)."""
        import numpy as np

        queries = _are_words(self.rows, self.query_tokens, self.query_words)
        keys = _are_words(self.columns, self.key_tokens, self.key_words, first=self.kind == "cross")
        words = np.outer(queries, keys)
        return words if self.kind == "cross" else words & (abs(np.subtract.outer(self.rows, self.columns)) > 1)

    @property
    def json_keys(self) -> tuple[str, ...]:
        """What its JSON says: of what is not always there, what is."""
        extra = ("scores", "names", "query_positions", "key_positions")
        there = [name for name in extra if getattr(self, name) is not None and len(getattr(self, name))]
        nexts = ("next_tokens", "next_predicted") if self.next_tokens else ()
        return ("kind", "query_tokens", *nexts, "key_tokens", "weights", *there)

    def hidden(self, layer: int, head: int) -> NDArray[np.bool_]:
        """Where a query may not look: as the mask has it; without one, where the weight is exactly 0. Shape: (T, S)."""
        return self.weights[layer, head] == 0.0 if self.mask is None else ~self.mask

    def visible_weights(self, layer: int, head: int) -> NDArray[np.float32]:
        """One head's weights, NaN where a query may not look. Shape: (T, S)."""
        import numpy as np

        return np.where(self.hidden(layer, head), np.float32(np.nan), self.weights[layer, head])

    def narrowed(self, layer: int | None, head: int | None) -> AttentionRecord:
        """The record with the asked layer and head alone; None: all. The axes stay."""
        layers, heads = (slice(None) if one is None else slice(one, one + 1) for one in (layer, head))
        found = self.each(lambda values: values[layers, heads])
        focus = self.focus[0] if layer is None else 0, self.focus[1] if head is None else 0
        return replace(found, names=self.names[layers], focus=focus, first=(layer or 0, head or 0))

    def each(self, part: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> AttentionRecord:
        """The record with a part of its weights, and of its scores and bias where it has them."""
        there = {"weights": self.weights, "scores": self.scores, "bias": self.bias}
        parts: dict[str, Any] = {name: part(values) for name, values in there.items() if values is not None}
        return replace(self, **parts)

    @property
    def rows(self) -> tuple[int, ...]:
        """The position of every query."""
        return self.query_positions or tuple(range(len(self.query_tokens)))

    @property
    def columns(self) -> tuple[int, ...]:
        """The position of every key."""
        return self.key_positions or tuple(range(len(self.key_tokens)))

    def place(self, layer: int, head: int) -> str:
        """What a layer and a head of `weights` are: "layer 1, head 0", or what stands in their place."""
        return self.names[layer] if self.names else f"layer {layer + self.first[0]}, head {head + self.first[1]}"


def _are_words(
    positions: tuple[int, ...], tokens: tuple[str, ...], words: tuple[Word, ...], *, first: bool = True
) -> NDArray[np.bool_]:
    """Which tokens are of a word; without `first`, of another one than the text's first."""
    import numpy as np

    found = [word.places for word in words if word.kind == "word"]
    if not words:
        found = [(at,) for at, token in zip(positions, tokens, strict=True) if any(map(str.isalnum, token))]
    begin = set() if first else {0, *(found[0] if found else ())}
    return np.isin(positions, [place for places in found for place in places if place not in begin])


@dataclass(frozen=True)
class AttentionEdge:
    """One query looking at one key; `only`: it may look at no other. its row is labelled as in `asking`."""

    query: int
    key: int
    query_token: str
    key_token: str
    row_label: str
    weight: float
    only: bool = False


@dataclass(frozen=True)
class AttentionEdges:
    """The strongest weights of one head, strongest first, which hold a `share` of all weight; `place`: "layer 1, head
    0", or what stands for it; `masked` cells, and those that are not: `possible` edges."""

    kind: AttentionKind
    place: str
    edges: tuple[AttentionEdge, ...]
    possible: int
    masked: int
    share: float


@dataclass(frozen=True, kw_only=True)
class AttentionPair(AttentionEdge):
    """A word looking at another over all layers and heads: `weights` (L, H), of which `weight` is the mean, `layer` and
    `head` the place of the largest. `chance` is what the word gives when it looks alike at all that it may look at; 0:
    it may not look. `rank` is the mean's among the `others`: the words that it may look at, but itself."""

    weights: NDArray[np.float32]
    chance: float
    layer: int | None = None
    head: int | None = None
    rank: int | None = None
    others: int | None = None

    @property
    def largest(self) -> float:
        """The largest of all weights."""
        return float(self.weights.max())


@dataclass(frozen=True)
class AttentionPairs:
    """Pairs of words as they were named, in self-attention both ways; `heads` of all layers together."""

    kind: AttentionKind
    heads: int
    pairs: tuple[AttentionPair, ...]


@dataclass(frozen=True)
class AttentionDifference(AttentionTokens):
    """One attention against another: `weights` − `other_weights`, query by query and key by key, each (T, S). `place`
    is what both are, "layer 1, head 0"; "" where the names say it. `mask` (T, S) is True where a query may look on at
    least one side. `largest` are (row, column) of the differences furthest from 0, the first first."""

    names: tuple[str, str]
    place: str
    other_query_tokens: tuple[str, ...]
    other_key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    other_weights: NDArray[np.float32]
    mask: NDArray[np.bool_]
    largest: tuple[tuple[int, int], ...]
    query_positions: tuple[int, ...]
    key_positions: tuple[int, ...]
    other_next_tokens: tuple[str, ...] = ()

    @property
    def differences(self) -> NDArray[np.float32]:
        """What the first side has more. Shape: (T, S)."""
        return self.weights - self.other_weights

    @property
    def visible_differences(self) -> NDArray[np.float32]:
        """As `differences`, NaN where neither side may look. Shape: (T, S)."""
        import numpy as np

        return np.where(self.mask, self.differences, np.float32(np.nan))


@dataclass(frozen=True)
class AttentionStep:
    """A head at one checkpoint: mean entropy of its rows in nats, and its strongest weight with its row and column. The
    strongest is looked for where `AttentionRecord.telling` is True; 0 where there is none, in a short text."""

    step: int
    entropy: float
    strongest: float
    row: int
    column: int


@dataclass(frozen=True)
class AttentionEvolution(AttentionTokens):
    """One head on a text at every kept checkpoint: `weights` (steps, T, S); `mask` (T, S), True where one may look."""

    layer: int
    head: int
    weights: NDArray[np.float32]
    mask: NDArray[np.bool_]
    steps: tuple[AttentionStep, ...]


@dataclass(frozen=True)
class AttentionHeads:
    """The heads that are shown of a text, as they are or several in one; the last record is drawn, at its focus. CSV
    and JSON hold the `layer` and the `head`, or all; `scores` says whether these stand beside the weights."""

    records: tuple[AttentionRecord, ...]
    layer: int | None = None
    head: int | None = None
    scores: bool = False

    def narrowed(self) -> tuple[AttentionRecord, ...]:
        """The records with the asked layer and head alone."""
        return tuple(record.narrowed(self.layer, self.head) for record in self.records)


@dataclass(frozen=True)
class AttentionQuery(AttentionHeads):
    """Where one query looks: the only row of the one record; and what is `predicted` behind it, the likeliest first."""

    predicted: tuple[Candidate, ...] = ()


# What can be asked of a text's attention.
AttentionFound = AttentionHeads | AttentionEdges | AttentionPairs | AttentionDifference | AttentionEvolution
