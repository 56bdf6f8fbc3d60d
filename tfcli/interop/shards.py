"""Sharded weights: several files, and the index that says which tensor is in which."""

from pathlib import Path

from torch import Tensor

from tfcli.errors import BrokenInputError, shortened
from tfcli.interop.json_files import read_object
from tfcli.interop.tensor_files import read_tensors

INDEX_SUFFIX = ".index.json"
_LONGEST_NAME = 255
"""Bytes that a file's name may have."""
_REMEDY = "fetch the checkpoint again, or choose another one"


def read_shards(index: Path) -> dict[str, Tensor]:
    """Read all the tensors that an index lists.

    Raises:
        BrokenInputError: the index is damaged, names a file that is missing or not in its folder, or the files hold
            other tensors than it says; names the index and the entry.
    """
    listed = _listed(index)
    shards = {file: _shard(index, file) for file in sorted(set(listed.values()))}
    tensors: dict[str, Tensor] = {}
    for file, path in shards.items():
        found = read_tensors(path)
        for name in found:
            if listed.get(name) != file:
                where = f"in {listed[name]!r}" if name in listed else "in none of its files"
                raise BrokenInputError(f"{path} has a tensor {name!r} that {index} has {where}", _REMEDY)
        tensors |= found
    for name, file in listed.items():
        if name not in tensors:
            raise BrokenInputError(f"{shards[file]} lacks the tensor {name!r} that {index} lists", _REMEDY)
    return tensors


def _listed(index: Path) -> dict[str, str]:
    """The file of each tensor."""
    listed = read_object(index).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise BrokenInputError(f"{index} has no weight_map that says which tensor is in which file", _REMEDY)
    for name, file in listed.items():
        if not isinstance(file, str):
            raise BrokenInputError(f"{index} has {name!r} in {file!r}, and the name of a file is needed", _REMEDY)
    return listed


def _shard(index: Path, file: str) -> Path:
    """The path of a shard, once it is clear that it is a file of the checkpoint and of the index's kind."""
    suffix = Path(index.name.removesuffix(INDEX_SUFFIX)).suffix
    is_name = file.isprintable() and len(file.encode()) <= _LONGEST_NAME and not any(sign in file for sign in "/\\:")
    if not is_name or Path(file).suffix != suffix:
        raise BrokenInputError(
            f"{index} names {shortened(repr(file))}, which is no {suffix} file of its folder",
            "choose a checkpoint that you trust",
        )
    path = index.parent / file
    if not path.is_file():
        raise BrokenInputError(f"{index} names {file!r}, and there is no such file beside it", _REMEDY)
    if not any(path.resolve().is_relative_to(home) for home in _homes(index.parent)):
        raise BrokenInputError(
            f"{index} names {file!r}, a link that leaves its folder", "copy the file itself into the folder"
        )
    return path


def _homes(folder: Path) -> list[Path]:
    """Where the files of a checkpoint may lie: in its folder; in the hub's cache, whose snapshots are links into a
    folder of contents beside them, there too."""
    folder = folder.resolve()
    repository = folder.parent.parent
    is_snapshot = folder.parent.name == "snapshots" and repository.name.startswith("models--")
    return [folder, repository / "blobs"] if is_snapshot else [folder]
