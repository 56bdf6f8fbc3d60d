"""Writing the shards of a part: ``.npy`` files that grow, so that memory stays flat whatever the corpus."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tfcli.data.manifest import StoredArray
from tfcli.files import file_digest

SHARD_TOKENS = 64_000_000
"""A shard is closed at the end of the document that brings it to this many ids."""


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32 that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)


class GrowingArray:
    """A one-dimensional ``.npy`` file that is appended to; its header gets the length when it is closed."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: ArrayLike) -> None:
        array = np.asarray(values, dtype=self.dtype)
        self._file.write(array.data)
        self.length += array.size

    def finish(self) -> StoredArray:
        body = self._header_end
        self._file.seek(0)
        self._write_header()
        assert self._header_end == body, "numpy leaves room in the header for any length"
        self._file.close()
        return StoredArray(self.path.name, self.path.stat().st_size, file_digest(self.path))

    def abandon(self) -> None:
        self._file.close()

    def _write_header(self) -> None:
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": (self.length,),
            },
        )
        self._header_end = self._file.tell()


class PartWriter:
    """Writes one part, document by document, as ``train-00000.tokens.npy``, ``train-00000.offsets.npy``, …

    `sides` is ("",) for text, ("source", "target") for pairs. Leaving the ``with`` block closes open files.
    """

    def __init__(self, folder: Path, part: str, sides: tuple[str, ...], dtype: DTypeLike, shard_tokens: int) -> None:
        self.shards: list[dict[str, StoredArray]] = []
        self._stem = folder / part
        self._sides = sides
        self._dtype = dtype
        self._shard_tokens = shard_tokens
        self._open: dict[str, GrowingArray] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for array in self._open.values():
            array.abandon()

    def append(self, side: str, ids: ArrayLike) -> None:
        """Add ids to the document that is being written on `side`."""
        if not self._open:
            self._start_shard()
        self._open[_name(side, "tokens")].append(ids)

    def end_document(self, side: str) -> None:
        """The document on `side` is complete."""
        self._open[_name(side, "offsets")].append([self._open[_name(side, "tokens")].length])
        if side == self._sides[-1] and self._open_tokens() >= self._shard_tokens:
            self.finish_shard()

    def finish_shard(self) -> None:
        """Close the shard that is being written, if there is one."""
        if self._open:
            self.shards.append({name: array.finish() for name, array in self._open.items()})
            self._open = {}

    def _start_shard(self) -> None:
        for side in self._sides:
            self._open_array(_name(side, "tokens"), self._dtype)
            self._open_array(_name(side, "offsets"), np.int64).append([0])

    def _open_array(self, name: str, dtype: DTypeLike) -> GrowingArray:
        path = self._stem.with_name(f"{self._stem.name}-{len(self.shards):05d}.{name}.npy")
        self._open[name] = GrowingArray(path, dtype)
        return self._open[name]

    def _open_tokens(self) -> int:
        return sum(self._open[_name(side, "tokens")].length for side in self._sides)


def _name(side: str, array: str) -> str:
    return f"{side}.{array}" if side else array
