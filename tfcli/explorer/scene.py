"""All that a moment's picture is drawn from, and the numbers of its map with the shades that they are painted in."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tfcli.explorer.reading import ReadText
from tfcli.explorer.state import View
from tfcli.records.attention import AttentionDifference, AttentionRecord
from tfcli.render.attention.words import head_sums, labels

Map = NDArray[np.float32]

_LEAST = 1e-4
"""Where the logarithmic scale begins: smaller weights look like this one."""


@dataclass(frozen=True)
class MapValues:
    """What a map shows.

    Shape:
        numbers: (T, S), as they are written; NaN where a query may not look
        shades: (T, S), what is painted, from `low` to `high`

    Args:
        ends: the numbers at the two ends of the scale, as they are written beside it.
        meaning: what a number is.
    """

    numbers: Map
    shades: Map
    low: float
    high: float
    ends: tuple[str, str]
    meaning: str
    signed: bool


@dataclass(frozen=True)
class Scene:
    """A text, a view of it, and what the terminal can show.

    Args:
        run: the run directory as it was named; checkpoint: which of its weights.
        color_system: rich's name of it; None: no colour.
        light: whether its background is.
    """

    run: str
    checkpoint: str
    reading: ReadText
    view: View
    color_system: str | None
    light: bool = False

    @cached_property
    def record(self) -> AttentionRecord:
        """The attention of the kind that is looked at."""
        return self.reading.record(self.view.place.kind)

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The labels of the rows."""
        return labels(self.record.query_tokens)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels of the columns."""
        return labels(self.record.key_tokens)

    @cached_property
    def values(self) -> MapValues:
        """What the map shows."""
        return map_values(self.reading, self.view)

    @cached_property
    def weights(self) -> Map:
        """The weights of the head that is looked at, NaN where a query may not look."""
        return self.record.visible_weights(self.view.place.layer, self.view.place.head)

    @property
    def cursor(self) -> tuple[int, int]:
        """Query and key."""
        return self.view.row, self.view.column


def map_values(reading: ReadText, view: View) -> MapValues:
    """What the map of a view shows."""
    numbers, meaning = _numbers(reading, view)
    if np.isnan(numbers).all():
        return MapValues(numbers, numbers, 0.0, 0.0, ("0", "0"), meaning, view.signed)
    if view.scale == "row":
        return _by_row(numbers, meaning, view.signed)
    if view.signed:
        furthest = float(np.nanmax(np.abs(numbers)))
        return MapValues(numbers, numbers, -furthest, furthest, (f"-{furthest:.3g}", f"{furthest:.3g}"), meaning, True)
    highest = float(np.nanmax(numbers))
    if view.scale == "log":
        shades = np.log10(np.maximum(numbers, _LEAST))
        top = float(np.log10(max(highest, _LEAST)))
        return MapValues(
            numbers, shades, float(np.log10(_LEAST)), top, (f"≤{_LEAST:.0e}", f"{highest:.3g}"), meaning, False
        )
    return MapValues(numbers, numbers, 0.0, highest, ("0", f"{highest:.3g}"), meaning, False)


def _numbers(reading: ReadText, view: View) -> tuple[Map, str]:
    found, kind = reading.found(view), view.place.kind
    if isinstance(found, AttentionDifference):
        return found.visible_differences, f"weight here − weight in {found.names[1]}"
    [record] = found.records
    layer, head = record.focus
    weights = record.visible_weights(layer, head)
    if found.scores:
        assert record.scores is not None
        scores = np.where(np.isnan(weights), np.float32(np.nan), record.scores[layer, head])
        return scores, "score before the softmax"
    if view.combined == "mean":
        return weights, f"mean of {reading.record(kind).weights.shape[1]} heads"
    if view.combined == "rollout":
        return weights, "share of a token in what a query has become"
    return weights, f"weight, {head_sums(record, layer, head)}"


def _by_row(numbers: Map, meaning: str, signed: bool) -> MapValues:
    """Every row divided by its largest distance from 0."""
    largest = np.abs(np.nan_to_num(numbers)).max(axis=1, keepdims=True)
    shades: Map = np.divide(numbers, np.where(largest == 0.0, 1.0, largest), dtype=np.float32)
    low, ends = (-1.0, ("-row's largest", "row's largest")) if signed else (0.0, ("0", "row's largest"))
    return MapValues(numbers, shades, low, 1.0, ends, meaning, signed)
