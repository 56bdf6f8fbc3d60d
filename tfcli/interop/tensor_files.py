"""Weights of other libraries: safetensors, or a PyTorch pickle of which nothing but tensors is read."""

import pickle
import warnings
from pathlib import Path

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError
from tfcli.runs.weights import is_finite, load_tensors

_READ = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_KEPT = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_RESTORE = "restore the file, or fetch the checkpoint again"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a ``.safetensors`` or ``.bin`` file.

    They stay as they are, those of a safetensors file in the file until they are used; float64 alone becomes float32.

    Raises:
        BrokenInputError: the file is damaged, holds more than tensors, or a tensor is not finite or of another type;
            names the file and the tensor.
    """
    tensors = _unpickled(path) if path.suffix == ".bin" else _loaded(path)
    return {name: _checked(name, tensor, path) for name, tensor in tensors.items()}


def _loaded(path: Path) -> dict[str, Tensor]:
    try:
        return load_tensors(path)[0]
    except BrokenInputError as error:  # a run's own weights have another remedy
        raise BrokenInputError(error.problem, _RESTORE) from error


def _unpickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file written by `torch.save`. Its pickle is read by PyTorch's own interpreter, which knows how
    to put tensors together and nothing else: no code of the file's choice can run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BrokenInputError(
            f"{path} is damaged, or a pickle that holds more than tensors and could run code",
            "convert the checkpoint to safetensors where you trust it",
        ) from error
    except Exception as error:  # the reader raises many kinds over a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BrokenInputError(f"{path} is truncated or no PyTorch file ({reason[:200]})", _RESTORE) from error
    if not isinstance(values, dict):
        raise BrokenInputError(f"{path} holds a {type(values).__name__}, not tensors by name", _RESTORE)
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise BrokenInputError(f"{path} holds {name!r}, a {type(value).__name__}, among its tensors", _RESTORE)
        if not _is_plain(value):
            raise BrokenInputError(f"{path}: tensor {name!r} is not stored number by number", _RESTORE)
    return dict(values)


def _is_plain(tensor: Tensor) -> bool:
    """Whether every number of the tensor is there: it is not sparse, quantized or a view that repeats a few."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _checked(name: str, tensor: Tensor, path: Path) -> Tensor:
    if tensor.dtype in _KEPT:
        return tensor.detach().contiguous()
    if tensor.dtype not in _READ:
        raise BrokenInputError(
            f"{path}: tensor {name!r} is of the type {tensor.dtype}, which tfcli does not read",
            "save the checkpoint in float32, float16 or bfloat16",
        )
    if tensor.dtype == torch.float64:
        tensor = tensor.float()
    if not is_finite(tensor):
        raise BrokenInputError(
            f"{path}: tensor {name!r} holds a value that is not finite",
            "restore the file, or choose another checkpoint",
        )
    return tensor.detach().contiguous()
