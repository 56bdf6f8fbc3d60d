"""The numbers of a view's map, and the shades that they are painted in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.explorer.reading import Reading
from tfcli.explorer.state import Place, Scale, View
from tfcli.inspection.attention.difference import difference
from tfcli.render.attention.words import head_sums

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


def map_values(reading: Reading, view: View) -> MapValues:
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


def scale_words(scale: Scale) -> str:
    """How values become colours, for the legend."""
    return {"linear": "", "log": "logarithmic", "row": "each row by itself"}[scale]


def head_weights(reading: Reading, place: Place) -> Map:
    """One head's weights, NaN where a query may not look.

    Shape:
        returns: (T, S)
    """
    return reading.record(place.kind).visible_weights(place.layer, place.head)


def _numbers(reading: Reading, view: View) -> tuple[Map, str]:
    place, record = view.place, reading.record(view.place.kind)
    weights = head_weights(reading, place)
    if view.against is not None:
        heads = ((place.layer, place.head), (view.against.layer, view.against.head))
        numbers = difference(record, record, heads, ("", ""), largest=0).visible_differences
        return numbers, f"weight here − weight in layer {view.against.layer}, head {view.against.head}"
    if view.quantity == "scores":
        assert record.scores is not None
        scores = np.where(np.isnan(weights), np.float32(np.nan), record.scores[place.layer, place.head])
        return scores, "score before the softmax"
    if view.combined == "head":
        return weights, f"weight, {head_sums(record, place.layer, place.head)}"
    if view.combined == "mean":
        mean = reading.means[place.kind].visible_weights(place.layer, 0)
        return mean, f"mean of {record.weights.shape[1]} heads"
    share = reading.rollouts[place.kind].visible_weights(place.layer, 0)
    return share, "share of a token in what a query has become"


def _by_row(numbers: Map, meaning: str, signed: bool) -> MapValues:
    """Every row divided by its largest distance from 0."""
    largest = np.abs(np.nan_to_num(numbers)).max(axis=1, keepdims=True)
    shades: Map = np.divide(numbers, np.where(largest == 0.0, 1.0, largest), dtype=np.float32)
    low, ends = (-1.0, ("-row's largest", "row's largest")) if signed else (0.0, ("0", "row's largest"))
    return MapValues(numbers, shades, low, 1.0, ends, meaning, signed)
