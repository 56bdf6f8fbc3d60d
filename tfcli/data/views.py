"""Reading the ids of a part, as one stream or as sequences by number; only what is asked for is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer]


class TokenStreamView:
    """All documents of a part, ``<s> ids </s> <s> ids </s> …``, as one stream of tokens over its shards."""

    def __init__(self, shards: Sequence[IntArray]) -> None:
        self._shards = shards
        self._ends = np.cumsum([len(shard) for shard in shards])

    def __len__(self) -> int:
        """The number of ids, special ones included."""
        return int(self._ends[-1])

    def windows(self, starts: IntArray, length: int) -> NDArray[np.int64]:
        """The `length` tokens from each of `starts` on.

        Shape: starts (B,); result (B, length)
        """
        result = np.empty((len(starts), length), dtype=np.int64)
        shards = np.searchsorted(self._ends, starts, side="right")
        for row, start, shard in zip(result, starts.tolist(), shards.tolist(), strict=True):
            self._read_into(row, start, shard)
        return result

    def _read_into(self, row: NDArray[np.int64], start: int, shard: int) -> None:
        filled = 0
        while filled < len(row):
            tokens = self._shards[shard]
            offset = start + filled - (int(self._ends[shard]) - len(tokens))
            found = tokens[offset : offset + len(row) - filled]
            row[filled : filled + len(found)] = found
            filled += len(found)
            shard += 1


class SequencesView:
    """The sequences of one side of the pairs, by their number."""

    def __init__(self, shards: Sequence[tuple[IntArray, IntArray]]) -> None:
        """`shards` are (tokens, offsets), offsets one longer than the sequences of the shard."""
        self._shards = shards
        self._firsts = np.cumsum([0] + [len(offsets) - 1 for _, offsets in shards])
        self.lengths: NDArray[np.int64] = np.concatenate([np.diff(offsets) for _, offsets in shards])

    def __len__(self) -> int:
        return len(self.lengths)

    def sequence(self, number: int) -> NDArray[np.int64]:
        """One sequence.

        Shape: (its length,)
        """
        return self.padded(np.array([number]), pad=0)[0]

    def padded(self, numbers: IntArray, pad: int) -> NDArray[np.int64]:
        """The sequences of these numbers, filled up on the right with `pad`.

        Shape: numbers (B,); result (B, longest of them)
        """
        lengths = self.lengths[numbers]
        result = np.full((len(numbers), int(lengths.max())), pad, dtype=np.int64)
        shards = np.searchsorted(self._firsts, numbers, side="right") - 1
        places = numbers - self._firsts[shards]
        for row, length, shard, place in zip(
            result, lengths.tolist(), shards.tolist(), places.tolist(), strict=True
        ):
            tokens, offsets = self._shards[shard]
            start = offsets[place]
            row[:length] = tokens[start : start + length]
        return result


@dataclass(frozen=True)
class PairsView:
    """The pairs of a part: source ``ids </s>``, target ``<s> ids </s>``."""

    source: SequencesView
    target: SequencesView

    def __len__(self) -> int:
        return len(self.source)
