"""What the explorer shows at a moment, and the moves from there to the next moment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import AttentionChoice
from tfcli.inspection.heads import Head

Scale = Literal["linear", "log", "row"]
Quantity = Literal["weights", "scores"]
Combined = Literal["head", "mean", "rollout"]  # of a layer, or through all up to it

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """What is looked at and how; the cursor is on a `row`, a query, and a `column`, a key. The `marked` head is what
    others are `compared` with; a `zoomed` map is cropped around the cursor, not pooled; small maps share `one_scale` or
    have their own; `sorted` bars come with the largest first. Of `words`, pieces are merged."""

    place: Head
    row: int = 0
    column: int = 0
    scale: Scale = "linear"
    quantity: Quantity = "weights"
    combined: Combined = "head"
    marked: Head | None = None
    compared: bool = False
    one_scale: bool = True
    zoomed: bool = False
    sorted: bool = False
    words: bool = False

    @property
    def against(self) -> Head | None:
        """The head from which the map is the difference; the marked one itself is shown as it is."""
        return self.marked if self.compared and self.marked != self.place else None

    @property
    def signed(self) -> bool:
        """Whether values are on both sides of 0: differences and raw scores."""
        return self.against is not None or self.quantity == "scores"

    @property
    def choice(self) -> AttentionChoice:
        """What is looked at, as `tfcli inspect attention` is asked for it."""
        shown = AttentionChoice(layer=self.place.layer, words=self.words, rollout=self.combined == "rollout")
        if self.combined != "head":
            return replace(shown, average="layer") if self.combined == "mean" else shown
        against = None if self.against is None else f"{self.against.layer}.{self.against.head}"
        scores = against is None and self.quantity == "scores"
        return replace(shown, head=self.place.head, against_head=against, scores=scores)

    def at(self, record: AttentionRecord, row: int, column: int) -> "View":
        """The cursor on a cell; outside of the map, on the nearest one."""
        rows, columns = record.weights.shape[2:]
        return replace(self, row=around(row, 1, rows), column=around(column, 1, columns))

    def moved(self, record: AttentionRecord, rows: int, columns: int) -> "View":
        """The cursor so many cells further down and to the right."""
        return self.at(record, self.row + rows, self.column + columns)

    def to_layer(self, record: AttentionRecord, layer: int) -> "View":
        """Another layer; behind the last comes the first."""
        return replace(self, place=replace(self.place, layer=layer % record.weights.shape[0]))._scaled()

    def to_head(self, record: AttentionRecord, head: int) -> "View":
        """Another head; behind the last comes the first of the same layer."""
        place = replace(self.place, head=head % record.weights.shape[1])
        return replace(self, place=place, combined="head")._scaled()

    def to_kind(self, record: AttentionRecord) -> "View":
        """Another kind of attention, on the head that says most; heads of two kinds are not compared."""
        moved = replace(self, place=Head(record.kind, *record.focus), marked=None, compared=False, combined="head")
        return moved.at(record, self.row, self.column)

    def rescaled(self) -> "View":
        """The next scale; what is below 0 has no logarithm."""
        scales = [scale for scale in get_args(Scale) if scale != "log" or not self.signed]
        return replace(self, scale=following(scales, self.scale))

    def requantified(self) -> "View":
        """Scores in the place of weights, and back; of this head and of pieces, for scores neither compare nor add."""
        quantity: Quantity = "weights" if self.quantity == "scores" else "scores"
        return replace(self, quantity=quantity, combined="head", compared=False, words=False)._scaled()

    def reworded(self) -> "View":
        """Words in the place of their pieces, and back."""
        return replace(self, words=not self.words, quantity="weights")

    def recombined(self) -> "View":
        """The mean of the layer's heads, then the rollout, then the head again."""
        ways = [way for way in get_args(Combined) if way != "rollout" or self.place.kind != "cross"]
        return replace(self, combined=following(ways, self.combined), quantity="weights", marked=None, compared=False)

    def differing(self) -> "View":
        """The first time this head is marked; the second time the difference from the mark is shown; then neither."""
        if self.marked is None:
            return replace(self, marked=self.place, combined="head")
        if not self.compared and self.marked != self.place:
            return replace(self, compared=True, quantity="weights", combined="head")._scaled()
        return replace(self, marked=None, compared=False)

    def _scaled(self) -> "View":
        return replace(self, scale="linear") if self.signed and self.scale == "log" else self


def following(choices: Sequence[T], current: T) -> T:
    """The choice behind the current one; behind the last, the first."""
    return choices[(choices.index(current) + 1) % len(choices)] if current in choices else choices[0]


def around(index: int, count: int, total: int) -> int:
    """The first of `count` among `total` with `index` in their middle where it can be."""
    return max(0, min(index - count // 2, total - count))
