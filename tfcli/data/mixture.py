"""Mixing sources by weight: which document comes next, so that every source has its share of the tokens at every point.

Weighted fair queueing (WF²Q; Bennett and Zhang 1996): of the sources that are not ahead of their share, the one whose
next document would be due first. No source is ever more than one document ahead of its share or behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mixed:
    """One pass over a mixture."""

    order: NDArray[np.int32]  # (documents,): the source of each document, which is always that source's next one
    documents: tuple[int, ...]  # documents of each source
    tokens: tuple[int, ...]  # tokens of each source
    retired: tuple[int | None, ...]  # tokens of the stream when a source had been read `caps` times; None: read on


def expected_epochs(totals: Sequence[int], weights: Sequence[float], caps: Sequence[int | None]) -> list[float]:
    """How often each source is read in one pass over a mixture, to within one document.

    Sources that are not capped keep the ratio of their weights at every point, whoever else has
    been retired, and the pass ends when the source of most tokens has been read once:

        epochs_i = min(cap_i, (weight_i / weight_largest) * total_largest / total_i)

    Args:
        totals: Tokens of each source, 1 at least.
        weights: Its share, in any unit.
        caps: How often it is read at most; None for no limit.

    >>> expected_epochs([40, 10], [2, 1], [None, None]), expected_epochs([40, 10], [2, 1], [None, 1])
    ([1.0, 2.0], [1.0, 1.0])
    """
    largest = int(np.argmax(totals))
    epochs = []
    for total, weight, cap in zip(totals, weights, caps, strict=True):
        uncapped = weight / weights[largest] * (totals[largest] / total)
        epochs.append(uncapped if cap is None else min(float(cap), uncapped))
    return epochs


def mixed_order(
    lengths: Sequence[NDArray[np.int64]], weights: Sequence[float], caps: Sequence[int | None] | None = None
) -> Mixed:
    """The order of one pass: until the source of most tokens has been read once, or every source as often as it may be.

    A source begins again where it ends. One that has been read `caps` times gives its share to the others, as they
    share the rest. `lengths`: tokens of each source's documents, one at least, of 1 token at least; `weights`: shares.

    Shape: lengths[source] (documents,)

    >>> lengths = [np.full(4, 10), np.full(2, 5)]
    >>> mixed_order(lengths, [2, 1]).order.tolist(), mixed_order(lengths, [2, 1], [None, 1]).order.tolist()
    ([0, 1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0])
    """
    largest = int(np.argmax([one.sum() for one in lengths]))
    limits = [cap and cap * len(one) for cap, one in zip(caps or [None] * len(lengths), lengths, strict=True)]
    documents, tokens = [0] * len(lengths), [0] * len(lengths)
    retired: list[int | None] = [None] * len(lengths)
    total_weight, clock = float(sum(weights)), 0.0
    # Tags are times of a clock that goes on by one while every source gets its weight in tokens.
    waiting = [(0.0, source) for source in range(len(lengths))]  # by the time at which a document may begin
    ready: list[tuple[float, int]] = []  # by the time at which it is due
    order = []
    while documents[largest] < len(lengths[largest]) and (waiting or ready):
        if not ready:
            clock = max(clock, waiting[0][0])
        while waiting and waiting[0][0] <= clock:
            begin, source = heappop(waiting)
            length = int(lengths[source][documents[source] % len(lengths[source])])
            heappush(ready, (begin + length / weights[source], source))
        due, source = heappop(ready)
        length = int(lengths[source][documents[source] % len(lengths[source])])
        order.append(source)
        documents[source] += 1
        tokens[source] += length
        clock += length / total_weight
        if documents[source] == limits[source]:
            retired[source] = sum(tokens)
            total_weight -= weights[source]
        else:
            heappush(waiting, (due, source))
    return Mixed(np.array(order, np.int32), tuple(documents), tuple(tokens), tuple(retired))
