"""The header of a safetensors file: the names, types and shapes of its tensors, without reading a weight.

Format: 8 bytes, the length of the header (little-endian), then the header as JSON: a tensor's name to its dtype, shape
and place (https://github.com/huggingface/safetensors).
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from tfcli.errors import BrokenInputError, UsageError

_LONGEST = 100_000_000
"""Bytes of a header; the library refuses longer ones, too."""
_REMEDY = "restore it, or resume from a checkpoint"

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


class Header(NamedTuple):
    """`shapes` and `types`, as the file calls them, by name; and what is said beside the tensors."""

    shapes: dict[str, tuple[int, ...]]
    types: dict[str, str]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """Read a header, and hold it against the size of the file.

    Raises:
        UsageError: there is no such file.
        BrokenInputError: it cannot be read, is truncated, or is no safetensors file.
    """
    if not path.is_file():  # a pipe would never end
        raise UsageError(f"{path} is no safetensors file that is there", _REMEDY)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header: Any = json.loads(file.read(length)) if 2 <= length <= _LONGEST else None
        metadata = header.pop("__metadata__", None) or {}
        shapes = {name: tuple(tensor["shape"]) for name, tensor in header.items()}
        types = {name: tensor["dtype"] for name, tensor in header.items()}
        end = 0
        for begin, after, name in sorted((*tensor["data_offsets"], name) for name, tensor in header.items()):
            # Integers, none of them beyond the file: else the sums and products below are of any size.
            if begin != end or any(type(size) is not int or not 0 <= size <= after for size in shapes[name]):
                raise ValueError(name)
            if after - begin != math.prod(shapes[name]) * _BYTES[types[name]]:
                raise ValueError(name)
            end = after
        if path.stat().st_size < 8 + length + end:
            raise BrokenInputError(f"{path} is truncated", _REMEDY)
        return Header(shapes, types, {str(key): str(value) for key, value in metadata.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenInputError(f"{path} is no safetensors file", _REMEDY) from error


def count_numbers(path: Path) -> int:
    """The numbers in a safetensors file of a model's weights: its parameters.

    Raises:
        UsageError, BrokenInputError: as `read_header`, or it holds other than weights.
    """
    header = read_header(path)
    for name, kind in header.types.items():
        if "F" not in kind:
            problem = f"{path}: tensor {name!r} is of the type {kind}, and weights are floating-point"
            raise BrokenInputError(problem, _REMEDY)
    return sum(map(math.prod, header.shapes.values()))
