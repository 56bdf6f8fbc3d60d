"""JSON files of a checkpoint: objects, of a size that can be right."""

from pathlib import Path
from typing import Any

from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import read_json

LARGEST = 1 << 26
"""Bytes. The index of a model with a hundred thousand tensors has a tenth of it."""


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        UsageError: it is not there, or no file.
        BrokenInputError: it is too large, no JSON or no object.
    """
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is no file that can be read"
        raise UsageError(f"{path} {what}", "restore the file, or fetch the checkpoint again")
    require_size(path)
    values = read_json(path)
    if not isinstance(values, dict):
        raise BrokenInputError(f"{path} holds {_kind(values)}, and an object is needed", "restore the file")
    return values


def require_size(path: Path) -> None:
    """Refuse a file that is too large to be what its name says, before it is read.

    Raises:
        BrokenInputError: naming its size.
    """
    if (size := path.stat().st_size) > LARGEST:
        raise BrokenInputError(
            f"{path} has {size:,} bytes, and no such file needs more than {LARGEST:,}", "restore the file"
        )


def read_optional(path: Path) -> dict[str, Any]:
    """As `read_object`; empty where there is no such file."""
    return read_object(path) if path.exists() else {}


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
