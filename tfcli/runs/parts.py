"""Tensors that several processes hold in parts, on disk: a folder with a file of each process.

Written and read by `torch.distributed.checkpoint` in its safetensors form; its usual one is pickled, and is not used.
What it needs is imported where it is called, since most trainings have one process.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, TfcliError, first_lines
from tfcli.files import read_json

if TYPE_CHECKING:
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.tensor import DTensor

ABOUT = "about.json"
"""What a folder of parts says beside its tensors: the id of its run."""


def save_parts(folder: Path, tensors: Mapping[str, Tensor]) -> None:
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


def load_parts(folder: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read tensors that are divided as `like` are, or not at all, from a folder that any number of processes has
    written. Where there are several processes, all call it together.

    Raises:
        BrokenInputError: a tensor is missing or has another shape, or a file is damaged.
    """
    from torch.distributed import checkpoint, is_initialized
    from torch.distributed.checkpoint.api import CheckpointException

    tensors = {name: torch.empty_like(tensor, requires_grad=False) for name, tensor in like.items()}
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    try:
        with warnings.catch_warnings(action="ignore"):  # one process alone is no mistake
            checkpoint.load(tensors, storage_reader=reader, no_dist=not is_initialized())
    except CheckpointException as error:
        raise BrokenInputError(
            f"{folder} does not hold what is needed: {_reason(error)}", "restore the run's own files"
        ) from error
    return tensors


def whole_parts(folder: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a folder of parts, put together, and what it says beside them.

    Raises:
        BrokenInputError: a file is damaged.
    """
    from safetensors import SafetensorError
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    try:
        stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise BrokenInputError(f"{folder} is damaged ({error})", "restore the run's own files") from error
    like = {
        name: torch.empty(tensor.size, dtype=tensor.properties.dtype)
        for name, tensor in stored.items()
        if isinstance(tensor, TensorStorageMetadata)
    }
    return load_parts(folder, like), read_json(folder / ABOUT)


def is_divided(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether several processes hold a part of it each."""
    return hasattr(tensor, "full_tensor")


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds; all of a plain one."""
    return tensor.to_local() if is_divided(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor. Of a divided one, all processes call it together."""
    return tensor.full_tensor() if is_divided(tensor) else tensor


def divided_as(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, divided as another one of its shape is: nothing is sent, since every process has all of it."""
    if not is_divided(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


def _reason(error: "CheckpointException") -> str:
    """What the first process that failed says."""
    failures = [failure for failure, _ in error.failures.values()]
    said = next((failure for failure in failures if isinstance(failure, Exception)), RuntimeError(str(error)))
    return first_lines(said)
