"""Weights on disk as safetensors: written atomically, read tensor by tensor, checked on the way in."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import read_json, replacing
from tfcli.runs.checkpoint import Checkpoint
from tfcli.runs.parts import ABOUT, load_full, load_sharded, local_shard, require_form, sharded_as


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
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a safetensors file, each read when it is asked for and held by nobody else: a model that is filled
    from them is in memory once. The file is opened for each, for what was read of an open one stays in memory.

    Args:
        like: divide them as these are; without it, all are whole.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is truncated or no safetensors file.
    """

    def __init__(self, path: Path, like: Mapping[str, Tensor] | None = None) -> None:
        self.path, self.like = path, like or {}
        with _opened(path) as file:
            self.names, self.metadata = frozenset(file.keys()), file.metadata() or {}

    def __getitem__(self, name: str) -> Tensor:
        with _opened(self.path) as file:
            tensor = file.get_tensor(name)
        return sharded_as(tensor, self.like.get(name, tensor))

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.exists():
        raise UsageError(f"There are no weights at {path}", "restore the file, or train again")
    if not path.is_file():
        raise BrokenInputError(f"{path} is no plain file", "restore it, or resume from a checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenInputError(
            f"{path} is truncated or no safetensors file ({error})", "restore it, or resume from a checkpoint"
        ) from error


def checkpoint_tensors(
    checkpoint: Checkpoint, name: str, run_id: str, like: Mapping[str, Tensor] | None = None
) -> Mapping[str, Tensor]:
    """The tensors of a checkpoint's "model" or "optimizer", from its one file, where each is read when it is asked for,
    or from a folder of parts.

    Args:
        run_id: of the run that it must belong to.
        like: divide them as these are; without it, all are whole. Of parts, exactly these are read.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is damaged, of another run or another step, or of `like` a tensor is missing in a folder of
            parts.
    """
    parts, file = checkpoint.folder / f"{name}.parts", checkpoint.folder / f"{name}.safetensors"
    tensors: Mapping[str, Tensor] = {}
    if not parts.is_dir() or file.is_file():  # beside parts lies what is never divided
        stored = StoredTensors(file, like)
        require_belonging(stored.metadata, file, run_id, checkpoint.step)
        tensors = stored
    if parts.is_dir():
        require_belonging(read_json(parts / ABOUT), parts, run_id, checkpoint.step)
        return {**tensors, **(load_full(parts) if like is None else load_sharded(parts, like))}
    return tensors


def require_belonging(metadata: Any, path: Path, run_id: str, step: int | None = None) -> None:
    """Refuse a file that says it is of another run, or of another step; files of before said nothing of their step.

    Raises:
        BrokenInputError: naming the file.
    """
    if not isinstance(metadata, dict) or metadata.get("run_id") != run_id:
        raise BrokenInputError(f"{path} belongs to another run", "restore the run's own file")
    if step is not None and metadata.get("step", str(step)) != str(step):
        raise BrokenInputError(f"{path} belongs to another step than {step}", "restore the run's own file")


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by name; a tied matrix appears once."""
    return dict(model.named_parameters())


def require_tensors(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors that do not have the names, shapes and types of `like`, or are not finite. Whatever comes in from
    a file, on whatever way, passes here before it is used.

    Raises:
        BrokenInputError: one is missing, wrongly shaped, of another type or not finite; names it and the file.
    """
    require_form(tensors, like, path)
    for name in like:
        if tensors[name].is_floating_point() and not is_finite(local_shard(tensors[name])):
            raise BrokenInputError(
                f"{path}: tensor {name!r} holds a value that is not finite", "restore a good checkpoint"
            )


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are, in one pass, without a tensor of answers."""
    if not tensor.numel():
        return True
    low, high = tensor.detach().aminmax()
    return bool(torch.isfinite(low) & torch.isfinite(high))


def fill_model(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    path: Path,
    stored: Sequence[torch.dtype] = (),
    only: Mapping[str, Tensor] | None = None,
) -> None:
    """Copy tensors into a model's parameters: look at one after the other, and then copy one after the other, so that
    a model keeps all its own where one is refused.

    Args:
        stored: the types that they may have, the usual one first; none: the model's.
        only: of the model's parameters, those to fill; None: all.

    Raises:
        BrokenInputError: one is left over, or as `require_tensors`.
    """
    parameters = {name: own for name, own in model_tensors(model).items() if only is None or name in only}
    for name, parameter in parameters.items():
        found = {name: tensors[name]} if name in tensors else {}
        kinds = [tensor.dtype for tensor in found.values() if tensor.dtype in stored] or stored[:1]
        require_tensors(found, {name: parameter.to("meta", kinds[0]) if kinds else parameter}, path)
    for name in tensors.keys() - parameters.keys():
        raise BrokenInputError(
            f"{path} has a tensor {name!r} that the model does not",
            "the file belongs to another run: restore the run's own",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
