"""Weights on disk: safetensors, whole or not at all, and checked on the way in."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import read_json, replacing
from tfcli.runs.parts import ABOUT, divided_as, load_parts, whole_parts


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a safetensors file.

    Raises:
        TfcliError: the folder is not there, or the disk is full.
    """
    try:
        with replacing(path) as temporary:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, dict(metadata))
    except SafetensorError as error:  # how the library reports a failed write
        raise TfcliError(f"Cannot write {path}: {_reason(error)}", "free the disk or choose another folder") from error


def _reason(error: SafetensorError) -> str:
    """In the system's own words, where it was the system that failed."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else str(error)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file and its metadata.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is truncated or no safetensors file.
    """
    if not path.is_file():
        raise UsageError(f"There are no weights at {path}", "restore the file, or train again")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenInputError(
            f"{path} is truncated or no safetensors file ({error})", "restore it, or resume from a checkpoint"
        ) from error


def checkpoint_tensors(
    checkpoint: Path, name: str, like: Mapping[str, Tensor] | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a checkpoint's "model" or "optimizer", from its one file or from a folder of parts, and what is
    said beside them.

    Args:
        like: divide them as these are; without it, all are whole. Of parts, exactly these are read.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is damaged, or of `like` a tensor is missing in a folder of parts.
    """
    parts = checkpoint / f"{name}.parts"
    if parts.is_dir():
        return whole_parts(parts) if like is None else (load_parts(parts, like), read_json(parts / ABOUT))
    tensors, metadata = load_tensors(checkpoint / f"{name}.safetensors")
    places = like or {}
    return {key: divided_as(tensor, places.get(key, tensor)) for key, tensor in tensors.items()}, metadata


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by name; a tied matrix appears once."""
    return dict(model.named_parameters())


def stored_tensor(tensors: Mapping[str, Tensor], name: str, path: Path) -> Tensor:
    """One of the tensors of a file.

    Raises:
        BrokenInputError: it is not there.
    """
    if name not in tensors:
        raise BrokenInputError(f"{path} lacks the tensor {name!r}", "restore the file, or train again")
    return tensors[name]


def fill_model(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a model's parameters.

    Raises:
        BrokenInputError: one is missing, left over, wrongly shaped or not finite; names it and the file.
    """
    parameters = model_tensors(model)
    remedy = "the file belongs to another run: restore the run's own"
    for name in parameters.keys() - tensors.keys():
        raise BrokenInputError(f"{path} lacks the tensor {name!r}", remedy)
    for name in tensors.keys() - parameters.keys():
        raise BrokenInputError(f"{path} has a tensor {name!r} that the model does not", remedy)
    for name, parameter in parameters.items():
        tensor = tensors[name]
        if tensor.shape != parameter.shape:
            raise BrokenInputError(
                f"{path}: tensor {name!r} has the shape {tuple(tensor.shape)}, not {tuple(parameter.shape)}",
                remedy,
            )
        if not torch.isfinite(tensor).all():
            raise BrokenInputError(
                f"{path}: tensor {name!r} holds a value that is not finite", "restore a good checkpoint"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
