"""Reading the ids of a part, as one stream or as sequences by number; only what is asked for is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer]


class Stored(Protocol):
    """Numbers of which only those that are asked for are read: an array, or one on disk."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, where: slice, /) -> IntArray:
        """Some of them."""


class TokenStreamView:
    """All documents of a part, ``<s> ids </s> <s> ids </s> …``, as one stream of tokens over its shards.

    Args:
        offsets: those of the documents of each shard, one more than there are.
        between: the one token that stands between two documents, and then before the first one as well:
            ``</s> ids </s> ids </s> …``. None: each has a beginning of its own, or none.
    """

    def __init__(self, shards: Sequence[Stored], offsets: Sequence[Stored] = (), between: int | None = None) -> None:
        self._shared = between is not None
        self._shards = shards if between is None else [np.array([between]), *shards]
        self._offsets = offsets if between is None else [np.zeros(1, np.int64), *offsets]
        self._ends = np.cumsum([len(shard) for shard in self._shards])

    def __len__(self) -> int:
        """The number of ids, special ones included."""
        return int(self._ends[-1])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each document begins in the stream, and where the last one ends.

        Shape: (documents + 1,)
        """
        firsts = self._ends - [len(shard) for shard in self._shards]
        begins = [first + offsets[:-1] for first, offsets in zip(firsts, self._offsets, strict=True)]
        return np.concatenate([*begins, self._ends[-1:]])

    @property
    def documents(self) -> NDArray[np.int64]:
        """Where a model begins to read each document, and where that one ends.

        Shape: (2, documents)
        """
        offsets = self.offsets
        return np.stack([offsets[:-1] - self._shared, offsets[1:]])

    def padded(self, starts: IntArray, lengths: IntArray, pad: int) -> NDArray[np.int64]:
        """The tokens from each of `starts` on, filled up on the right with `pad`.

        Shape: starts, lengths (B,); result (B, longest of them)
        """
        result = np.full((len(starts), int(lengths.max())), pad, dtype=np.int64)
        shards = np.searchsorted(self._ends, starts, side="right")
        for row, start, length, shard in zip(result, starts.tolist(), lengths.tolist(), shards.tolist(), strict=True):
            self._read_into(row[:length], start, shard)
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

    def __init__(self, shards: Sequence[tuple[Stored, Stored]]) -> None:
        """`shards` are (tokens, offsets), offsets one longer than the sequences of the shard."""
        self._shards = [(tokens, offsets[:]) for tokens, offsets in shards]
        self._firsts = np.cumsum([0] + [len(offsets) - 1 for _, offsets in self._shards])
        self.lengths: NDArray[np.int64] = np.concatenate([np.diff(offsets) for _, offsets in self._shards])

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
        for row, length, shard, place in zip(result, lengths.tolist(), shards.tolist(), places.tolist(), strict=True):
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
