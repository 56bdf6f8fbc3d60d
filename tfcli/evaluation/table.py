"""Sufficient statistics: all scores of a run as functions of sums over units, so that any resample can be scored.

Shape legend: U units, K sums of a unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tfcli.evaluation.bootstrap import Array, Score
from tfcli.evaluation.measure import Measured
from tfcli.evaluation.translation import bleu_of, chrf_of


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Sums of each unit, and the scores that they give, by name.

    Shape: sums (U, K)
    """

    sums: Array
    scores: dict[str, Score]


def score_table(measured: Measured) -> ScoreTable:
    """The table of one run on one text."""
    columns, scores = zip(*_parts(measured), strict=True)
    named: dict[str, Score] = {}
    end = 0
    for column, given in zip(columns, scores, strict=True):
        start, end = end, end + column.shape[1]
        named |= {name: partial(_of_columns, score, slice(start, end)) for name, score in given.items()}
    return ScoreTable(np.concatenate(columns, axis=1), named)


def _of_columns(score: Score, columns: slice, sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return score(sums[..., columns])


def _parts(measured: Measured) -> Iterator[tuple[Array, dict[str, Score]]]:
    """Columns, and the scores of these columns."""
    cells, sums = measured.cells, measured.sums

    def by_unit(*columns: NDArray[np.number]) -> Array:
        return np.stack([np.bincount(cells.unit, column, cells.units) for column in columns], axis=1)

    yield by_unit(sums.nats, sums.tokens), {"loss": _ratio, "perplexity": lambda s: np.exp(_ratio(s))}
    yield by_unit(sums.correct, sums.tokens), {"accuracy": _ratio}
    if measured.extent is not None:
        bits = sums.nats / np.log(2)
        scored = sums.tokens > 0
        yield by_unit(bits, measured.extent.bytes * scored), {"bits_per_byte": _ratio}
        yield by_unit(bits, measured.extent.characters * scored), {"bits_per_character": _ratio}
    if measured.pseudo is not None:
        pseudo = by_unit(measured.pseudo.nats, measured.pseudo.tokens)
        yield pseudo, {"pseudo_perplexity": lambda s: np.exp(_ratio(s))}
    if measured.translated is not None:
        counts = measured.translated.statistics
        yield counts.bleu, {"bleu": bleu_of}
        yield counts.chrf, {"chrf": chrf_of}
        yield np.stack([counts.exact, np.ones_like(counts.exact)], axis=1), {"exact_match": _ratio}


def _ratio(sums: Array) -> Array:
    ratio: Array = sums[..., 0] / sums[..., 1]
    return ratio
