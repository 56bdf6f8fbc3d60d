"""Scores by length: a model that is good on average may still be bad at what is long."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.evaluation.measure import Measured
from tfcli.records.evaluation import Bucket

_LAST = np.array([factor << power for power in range(2, 40) for factor in (2, 3)])
"""The longest of each bucket: 8, 12, 16, 24, 32, 48 tokens, and so on."""


def buckets(measured: Measured) -> tuple[Bucket, ...]:
    """The scores of each bucket of lengths that is not empty, the shortest first."""
    return tuple(_buckets(measured))


def bucket_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the bucket of each length.

    >>> bucket_of(np.array([0, 8, 9, 12, 13, 1024]))
    array([ 0,  0,  1,  1,  2, 14])
    """
    return np.searchsorted(_LAST, lengths)


def _buckets(measured: Measured) -> Iterator[Bucket]:
    number = bucket_of(measured.lengths)
    count = int(number.max()) + 1
    sums = measured.sums.grouped(number[measured.cells.document], count)
    for bucket in np.unique(number).tolist():
        here = np.flatnonzero(number == bucket)
        tokens = int(sums.tokens[bucket])
        scores = None if measured.translated is None else measured.translated.statistics.scores(here)
        yield Bucket(
            shortest=int(_LAST[bucket - 1]) + 1 if bucket else 1,
            longest=int(_LAST[bucket]),
            documents=len(here),
            loss=float(sums.nats[bucket]) / tokens if tokens else None,
            accuracy=float(sums.correct[bucket]) / tokens if tokens else None,
            bleu=None if scores is None else scores.bleu,
            chrf=None if scores is None else scores.chrf,
            exact_match=None if scores is None else scores.exact_match,
        )
