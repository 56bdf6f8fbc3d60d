"""Sharded checkpoints of FSDP: tensors that several processes hold in parts, as a folder with a file of each process.

Written and read by `torch.distributed.checkpoint` in its safetensors form; its usual one is pickled, and is not used.
What it needs is imported where it is called, since most trainings have one process.
"""

import math
import warnings
from collections.abc import Mapping
from itertools import combinations, pairwise, starmap
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, TfcliError, first_lines
from tfcli.runs.header import read_header

if TYPE_CHECKING:
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.tensor import DTensor

ABOUT = "about.json"
"""What a folder of parts says beside its tensors: the id of its run, and the step."""

_RESTORE = "restore the run's own files"

_Part = tuple[tuple[int, ...], tuple[int, ...]]


def save_sharded(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write this process's parts of tensors into a folder. All processes call it together.

    Raises:
        TfcliError: the disk is full, or the folder is not there.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.api import CheckpointException

    writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        checkpoint.save({name: tensor.detach() for name, tensor in tensors.items()}, storage_writer=writer)
    except CheckpointException as error:
        raise TfcliError(
            f"Cannot write {folder}: {_reason(error)}", "free the disk or choose another folder"
        ) from error


def load_sharded(folder: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read tensors that are divided as `like` are, or not at all, from a folder that any number of processes has
    written. Where there are several processes, all call it together.

    Raises:
        BrokenInputError: a tensor is missing, has another shape or type, or not every element of it is there once; or a
            file is damaged.
    """
    return _loaded(folder, like, _stored(folder))


def load_full(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder of parts, put together.

    Raises:
        BrokenInputError: a file is missing or damaged.
    """
    stored = _stored(folder)
    like = {name: torch.empty(tensor.size, dtype=tensor.properties.dtype) for name, tensor in stored.items()}
    return _loaded(folder, like, stored)


def _stored(folder: Path) -> "dict[str, TensorStorageMetadata]":
    """What the files say they hold of each tensor, all of one type."""
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    types: dict[str, str] = {}
    for file in folder.glob("*.safetensors"):
        for name, kind in read_header(file).types.items():
            if types.setdefault(name, kind) != kind:
                raise BrokenInputError(
                    f"{file}: tensor {name!r} is of the type {kind}, and {types[name]} in another file", _RESTORE
                )
    try:
        stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except Exception as error:  # the reader raises many kinds over a damaged file
        raise BrokenInputError(f"{folder} is damaged ({first_lines(error)})", _RESTORE) from error
    return {name: tensor for name, tensor in stored.items() if isinstance(tensor, TensorStorageMetadata)}


def _loaded(
    folder: Path, like: Mapping[str, Tensor], stored: "Mapping[str, TensorStorageMetadata]"
) -> dict[str, Tensor]:
    from torch.distributed import checkpoint, is_initialized
    from torch.distributed.checkpoint.api import CheckpointException

    forms = {name: torch.empty(of.size, dtype=of.properties.dtype, device="meta") for name, of in stored.items()}
    require_form(forms, like, folder)
    for name in like:
        _require_covered(folder, name, stored[name])
    tensors = {name: torch.empty_like(tensor, requires_grad=False) for name, tensor in like.items()}
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    try:
        with warnings.catch_warnings(action="ignore"):  # one process alone is no mistake
            checkpoint.load(tensors, storage_reader=reader, no_dist=not is_initialized())
    except CheckpointException as error:
        raise BrokenInputError(f"{folder} does not hold what is needed: {_reason(error)}", _RESTORE) from error
    return tensors


def require_form(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors that do not have the names, shapes and types of `like`.

    Raises:
        BrokenInputError: one is missing, wrongly shaped or of another type; names it and the file.
    """
    remedy = "the file is damaged or belongs to another run: restore the run's own"
    for name, wanted in like.items():
        if name not in tensors:
            raise BrokenInputError(f"{path} lacks the tensor {name!r}", remedy)
        tensor = tensors[name]
        if tensor.shape != wanted.shape:
            raise BrokenInputError(
                f"{path}: tensor {name!r} has the shape {tuple(tensor.shape)}, not {tuple(wanted.shape)}", remedy
            )
        if tensor.dtype != wanted.dtype:
            raise BrokenInputError(f"{path}: tensor {name!r} is of the type {tensor.dtype}, not {wanted.dtype}", remedy)


def _require_covered(folder: Path, name: str, stored: "TensorStorageMetadata") -> None:
    """Refuse a tensor of which the files do not hold every element, once: the library fills in what there is, and the
    rest stays whatever was in memory."""
    parts = sorted((tuple(part.offsets), tuple(part.sizes)) for part in stored.chunks if 0 not in part.sizes)
    wanted, numbers = stored.size.numel(), sum(math.prod(sizes) for _, sizes in parts)
    cut = sum(len(set(places)) > 1 for places in zip(*(zip(*part, strict=True) for part in parts), strict=True))
    if any(starmap(_overlap, pairwise(parts) if cut < 2 else combinations(parts, 2))):
        problem = f"{folder}: its files hold some numbers of the tensor {name!r} twice"
    elif numbers != wanted:
        problem = f"{folder}: of the {wanted:,} numbers of the tensor {name!r} its files hold {numbers:,}"
    else:
        return
    raise BrokenInputError(f"{problem}: a file is missing, or not its own", _RESTORE)


def _overlap(ours: _Part, theirs: _Part) -> bool:
    """Whether two parts of a tensor, each its offsets and sizes, have an element in common."""
    return all(a < b + length and b < a + size for a, size, b, length in zip(*ours, *theirs, strict=True))


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether several processes hold a part of it each."""
    return hasattr(tensor, "full_tensor")


def local_shard(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds; all of a plain one."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor. Of a divided one, all processes call it together."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def sharded_as(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, divided as another one of its shape is: nothing is sent, since every process has all of it."""
    if not is_sharded(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


def _reason(error: "CheckpointException") -> str:
    """What the first process that failed says."""
    failures = [failure for failure, _ in error.failures.values()]
    said = next((failure for failure in failures if isinstance(failure, Exception)), RuntimeError(str(error)))
    return first_lines(said)
