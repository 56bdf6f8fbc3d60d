"""Attention weights with the tokens they belong to: self-attention, cross-attention, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from tfcli.inspection.embeddings import Word
from tfcli.records.generation import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]


@dataclass(frozen=True)
class AttentionRecord:
    """One kind of attention of one text.

    `weights[layer, head, query, key]` are after the softmax: each row over `key` sums to 1. `scores` are before it and
    before the mask, so that hidden keys have one too, and hold `bias`, what positions add to them;
    None: not kept, or nothing is added. `focus` is the layer and the head to look at first.

    Attributes:
        names: what each entry of the first axis is where it is no layer's own heads: "layer 0, mean of 4 heads".
        query_positions: where the queries stand in their text, key_positions: the keys; () for 0, 1, 2 …
        formula: how this model makes scores.
        query_words: the words that the whole text's tokens spell, key_words: those of the keys' text; () for unknown.
        mask: True where a query may look, the same for all layers and heads; None: where its weight is not 0.

    Shape:
        weights, scores, bias: (L, H, T, S); mask: (T, S)
    """

    json_list: ClassVar = "records"
    kind: AttentionKind
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    focus: tuple[int, int] = (0, 0)
    scores: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None
    names: tuple[str, ...] = ()
    query_positions: tuple[int, ...] = ()
    key_positions: tuple[int, ...] = ()
    formula: str = ""
    mask: NDArray[np.bool_] | None = None
    query_words: tuple[Word, ...] = ()
    key_words: tuple[Word, ...] = ()

    @property
    def telling(self) -> NDArray[np.bool_]:
        """Where a weight says something of the text: between words; in self-attention neither to the first of them, on
        which many heads rest, nor from a token to itself or to a neighbour, where many look whatever is there.

        Shape:
            returns: (T, S)
        """
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
        return ("kind", "query_tokens", "key_tokens", "weights", *there)

    def hidden(self, layer: int, head: int) -> NDArray[np.bool_]:
        """Where a query may not look: as the mask has it; without one, where the weight is exactly 0. Shape: (T, S)."""
        return self.weights[layer, head] == 0.0 if self.mask is None else ~self.mask

    def visible_weights(self, layer: int, head: int) -> NDArray[np.float32]:
        """One head's weights, NaN where a query may not look. Shape: (T, S)."""
        import numpy as np

        return np.where(self.hidden(layer, head), np.float32(np.nan), self.weights[layer, head])

    def narrowed(self, layer: int | None, head: int | None) -> AttentionRecord:
        """The record with the asked layer and head alone; None: all. The axes stay."""
        layers = slice(None) if layer is None else slice(layer, layer + 1)
        heads = slice(None) if head is None else slice(head, head + 1)
        return replace(
            self,
            weights=self.weights[layers, heads],
            scores=None if self.scores is None else self.scores[layers, heads],
            bias=None if self.bias is None else self.bias[layers, heads],
            names=self.names[layers] if self.names else (),
        )

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
        return self.names[layer] if self.names else f"layer {layer}, head {head}"


def _are_words(
    positions: tuple[int, ...], tokens: tuple[str, ...], words: tuple[Word, ...], *, first: bool = True
) -> NDArray[np.bool_]:
    """Which tokens are of a word; without `first`, of another one than the text's first."""
    import numpy as np

    if not words:
        words = tuple(
            Word(token, (at,), "word" if any(map(str.isalnum, token)) else "sign")
            for at, token in zip(positions, tokens, strict=True)
        )
    found = [word for word in words if word.kind == "word"]
    begin = set() if first else {0, *(found[0].places if found else ())}
    kept = {place for word in found for place in word.places} - begin
    return np.isin(positions, list(kept))


@dataclass(frozen=True)
class AttentionEdge:
    """One query looking at one key; `only`: it may look at no other."""

    query: int
    key: int
    query_token: str
    key_token: str
    weight: float
    only: bool = False


@dataclass(frozen=True)
class AttentionEdges:
    """The strongest weights of one head, strongest first.

    Attributes:
        place: "layer 1, head 0", or what stands for it.
        possible: edges there are: cells that are not masked; masked: cells that are.
        share: of all weight, what these edges hold.
    """

    kind: AttentionKind
    place: str
    edges: tuple[AttentionEdge, ...]
    possible: int
    masked: int
    share: float


@dataclass(frozen=True)
class AttentionDifference:
    """One attention against another: `weights` − `other_weights`, query by query and key by key.

    Attributes:
        names: of the two sides.
        place: what both are: "layer 1, head 0"; "" where the names say it.
        query_tokens, key_tokens: of the first side; other_query_tokens, other_key_tokens: of the second.
        mask: True where a query may look on at least one side.
        largest: the differences furthest from 0, the first first: (row, column) of `weights`.

    Shape:
        weights, other_weights, mask: (T, S)
    """

    kind: AttentionKind
    names: tuple[str, str]
    place: str
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    other_query_tokens: tuple[str, ...]
    other_key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    other_weights: NDArray[np.float32]
    mask: NDArray[np.bool_]
    largest: tuple[tuple[int, int], ...]
    query_positions: tuple[int, ...]
    key_positions: tuple[int, ...]

    @property
    def differences(self) -> NDArray[np.float32]:
        """What the first side has more. Shape: (T, S)."""
        import numpy as np

        return np.asarray(self.weights - self.other_weights)

    @property
    def visible_differences(self) -> NDArray[np.float32]:
        """As `differences`, NaN where neither side may look. Shape: (T, S)."""
        import numpy as np

        return np.where(self.mask, self.differences, np.float32(np.nan))


@dataclass(frozen=True)
class AttentionStep:
    """A head at one checkpoint: mean entropy of its rows in nats, and its strongest weight with its row and column.

    The strongest is looked for where `AttentionRecord.telling` is True; 0 where there is none, in a short text.
    """

    step: int
    entropy: float
    strongest: float
    row: int
    column: int


@dataclass(frozen=True)
class AttentionEvolution:
    """One head on one text, at every checkpoint that the run keeps; `mask` is True where a query may look.

    Shape:
        weights: (steps, T, S); mask: (T, S)
    """

    kind: AttentionKind
    layer: int
    head: int
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    mask: NDArray[np.bool_]
    steps: tuple[AttentionStep, ...]


@dataclass(frozen=True)
class AttentionHeads:
    """The heads that are shown of a text, as they are or several in one; the last record is drawn, at its focus.

    CSV and JSON hold the `layer` and the `head`, or all; `scores` says whether these stand beside the weights.
    """

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


AttentionFound = AttentionHeads | AttentionEdges | AttentionDifference | AttentionEvolution
"""What can be asked of a text's attention."""
