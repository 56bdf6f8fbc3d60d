"""The header of a safetensors file: the shapes of its tensors, without reading a weight.

Format: 8 bytes, the length of the header (little-endian), then the header as JSON: a tensor's name to its dtype, shape
and place (https://github.com/huggingface/safetensors).
"""

import json
import math
from pathlib import Path
from typing import Any

from tfcli.errors import BrokenInputError

_LONGEST = 100_000_000
"""Bytes of a header; the library refuses longer ones, too."""


def count_numbers(path: Path) -> int:
    """The numbers in a safetensors file; of a model's weights, its parameters.

    Raises:
        BrokenInputError: it cannot be read, is truncated, or is no safetensors file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header: Any = json.loads(file.read(length)) if 2 <= length <= _LONGEST else None
        header.pop("__metadata__", None)
        ends = [tensor["data_offsets"][1] for tensor in header.values()]
        if path.stat().st_size < 8 + length + max(ends, default=0):
            raise BrokenInputError(f"{path} is truncated", "restore it, or resume from a checkpoint")
        return sum(math.prod(tensor["shape"]) for tensor in header.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenInputError(f"{path} is no safetensors file", "restore it, or resume from a checkpoint") from error
