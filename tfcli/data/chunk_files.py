"""The file of a chunk: arrays in an uncompressed `.npz`, which may come from elsewhere as part of a share.

`numpy.load` makes an array as large as a header says before it reads, raises whatever `zipfile`
does, and decompresses what it finds. Here an array is no larger than its file.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import BrokenInputError

_NUMBERS = "biuf"  # kinds of NumPy: booleans, integers and floats


class ChunkFile(Mapping[str, NDArray[Any]]):
    """The arrays of a chunk by name: `PART.SIDE.ids`, `PART.SIDE.ends`, `PART.sums`, `PART.keys`.

    An array is read anew each time that it is used, and can only be read.
    """

    def __init__(self, archive: ZipFile, num_bytes: int) -> None:
        self._archive = archive
        self._num_bytes = num_bytes
        self._members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        member = self._members[name]
        if member.compress_type != ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{name} is compressed or encrypted")
        if max(member.compress_size, member.file_size) > self._num_bytes:
            raise ValueError(f"{name} is larger than its file")
        data = self._archive.read(member)
        stream = BytesIO(data)
        np.lib.format.read_magic(stream)
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in _NUMBERS or is_fortran:
            raise ValueError(f"{name} is no array of numbers")
        values = np.frombuffer(data, dtype, offset=stream.tell())
        return values.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@contextmanager
def opened_chunk(path: Path) -> Iterator[ChunkFile]:
    """Open the file of a chunk.

    Raises:
        BrokenInputError: The file is damaged, lacks an array, or was not written by tfcli.
    """
    try:
        with ZipFile(path) as archive:
            yield ChunkFile(archive, path.stat().st_size)
    except KeyError as error:
        raise BrokenInputError(f"{path} is damaged (it has no array {error})", "give the command again") from error
    except (ValueError, EOFError, BadZipFile, NotImplementedError) as error:
        raise BrokenInputError(f"{path} is damaged ({error})", "give the command again") from error
