"""Weights as safetensors: written atomically, read tensor by tensor, checked; FSDP's folders with a file a process, by
`torch.distributed.checkpoint` in its safetensors form (its usual one is pickled), imported where it is called."""

import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tfcli.errors import BrokenInputError, TfcliError, UsageError, first_lines
from tfcli.files import read_json, replacing
from tfcli.runs.checkpoint import Checkpoint
from tfcli.runs.config import read_header

if TYPE_CHECKING:
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.tensor import DTensor

ABOUT = "about.json"  # what a folder of parts says beside its tensors: the id of its run, and the step
_RESTORE = "restore the run's own files"
_OTHER = "the file is damaged or belongs to another run: restore the run's own"
_RESUME = "restore it, or resume from a checkpoint"
_FULL = "free the disk or choose another folder"
_METADATA = "__metadata__"
# A safetensors file begins with the length of its header, a little-endian number of so many bytes.
_LENGTH_BYTES = 8
_Part = tuple[tuple[int, ...], tuple[int, ...]]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file; a `TfcliError` where the folder is not there, or the disk is full."""
    try:
        with replacing(path) as temporary:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, dict(metadata))
            sort_metadata(temporary)
    except SafetensorError as error:  # how the library reports a failed write
        number = re.search(r"\(os error (\d+)\)", str(error))  # in the system's own words, where it was the system
        reason = os.strerror(int(number[1])) if number else str(error)
        raise TfcliError(f"Cannot write {path}: {reason}", _FULL) from error


def sort_metadata(path: Path) -> None:
    """Write the metadata of a safetensors file in the order of their keys, in place.

    The library writes them in an order that changes from one process to the next, so that the same
    tensors would give different files. The header keeps its length: only its entries move.
    """
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
        if len(header.get(_METADATA, ())) < 2:
            return
        header[_METADATA] = dict(sorted(header[_METADATA].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(text) <= length, "the same entries in another order are as long"
        file.seek(_LENGTH_BYTES)
        file.write(text.ljust(length))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file and its metadata: a `UsageError` without it, a `BrokenInputError` of a damaged one."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a safetensors file, each read when it is asked for, and divided as that of `like` is: a model that
    is filled from them is in memory once, for the file is opened for each. Raises what `load_tensors` raises."""

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
        raise BrokenInputError(f"{path} is no plain file", _RESUME)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenInputError(f"{path} is truncated or no safetensors file ({error})", _RESUME) from error


def checkpoint_tensors(
    checkpoint: Checkpoint, name: str, run_id: str, like: Mapping[str, Tensor] | None = None
) -> Mapping[str, Tensor]:
    """The tensors of a checkpoint's "model" or "optimizer", from one file, each read when it is asked for, or from a
    folder of parts: divided as those of `like` are, which is exactly what is read of parts; without it, whole. A
    `UsageError` where it is not there, a `BrokenInputError` where it is damaged or of another run or step."""
    parts, file = checkpoint.folder / f"{name}.parts", checkpoint.folder / f"{name}.safetensors"
    undivided: Mapping[str, Tensor] = {}
    if not parts.is_dir() or file.is_file():  # beside parts lies what is never divided
        undivided = stored = StoredTensors(file, like)
        require_belonging(stored.metadata, file, run_id, checkpoint.step)
    if not parts.is_dir():
        return undivided
    require_belonging(read_json(parts / ABOUT), parts, run_id, checkpoint.step)
    return {**undivided, **load_sharded(parts, like)}


def require_belonging(metadata: Any, path: Path, run_id: str, step: int | None = None) -> None:
    """Refuse a file that says it is of another run, or of another step; files of before said nothing of their step."""
    if not isinstance(metadata, dict) or metadata.get("run_id") != run_id:
        raise BrokenInputError(f"{path} belongs to another run", "restore the run's own file")
    if step is not None and metadata.get("step", str(step)) != str(step):
        raise BrokenInputError(f"{path} belongs to another step than {step}", "restore the run's own file")


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by name; a tied matrix appears once."""
    return dict(model.named_parameters())


def require_tensors(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors that do not have the names, shapes and types of `like`, or are not finite, by a `BrokenInputError`
    that names the first. Whatever comes in from a file, on whatever way, passes here before it is used."""
    _require_form(tensors, like, path)
    for name in like:
        if tensors[name].is_floating_point() and not is_finite(local_shard(tensors[name])):
            problem = f"{path}: tensor {name!r} holds a value that is not finite"
            raise BrokenInputError(problem, "restore a good checkpoint")


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
    skips: Callable[[str], bool] = lambda _: False,
) -> None:
    """Copy tensors into a model's parameters, but for those that it `skips` by name; all stay where one is refused, as
    one left over. `stored` are the types that they may have, the usual one first; none: the model's."""
    parameters = {name: own for name, own in model_tensors(model).items() if not skips(name)}
    for name, parameter in parameters.items():
        found = {name: tensors[name]} if name in tensors else {}
        kinds = [tensor.dtype for tensor in found.values() if tensor.dtype in stored] or stored[:1]
        require_tensors(found, {name: parameter.to("meta", kinds[0]) if kinds else parameter}, path)
    for name in (one for one in tensors.keys() - parameters.keys() if not skips(one)):
        raise BrokenInputError(f"{path} has a tensor {name!r} that the model does not", _OTHER)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def save_sharded(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write this process's parts of tensors into a folder, all together; a `TfcliError` where that fails."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.api import CheckpointException

    writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        checkpoint.save({name: tensor.detach() for name, tensor in tensors.items()}, storage_writer=writer)
    except CheckpointException as error:
        raise TfcliError(f"Cannot write {folder}: {_first_failure(error)}", _FULL) from error


def load_sharded(folder: Path, like: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Read tensors from a folder that any number of processes has written: divided as those of `like` are, or all of
    the folder, whole. Where there are several processes, all call it together. A `BrokenInputError` where a tensor is
    missing, has another shape or type, or not every element of it is there once; or a file is damaged."""
    from torch.distributed import checkpoint, is_initialized
    from torch.distributed.checkpoint.api import CheckpointException

    stored = _stored(folder)
    forms = {name: torch.empty(of.size, dtype=of.properties.dtype, device="meta") for name, of in stored.items()}
    if like is None:
        like = {name: torch.empty_like(form, device="cpu") for name, form in forms.items()}
    _require_form(forms, like, folder)
    for name in like:
        _require_covered(folder, name, stored[name])
    tensors = {name: torch.empty_like(tensor, requires_grad=False) for name, tensor in like.items()}
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    try:
        with warnings.catch_warnings(action="ignore"):  # one process alone is no mistake
            checkpoint.load(tensors, storage_reader=reader, no_dist=not is_initialized())
    except CheckpointException as error:
        raise BrokenInputError(f"{folder} does not hold what is needed: {_first_failure(error)}", _RESTORE) from error
    return tensors


def _stored(folder: Path) -> "dict[str, TensorStorageMetadata]":
    """What the files say they hold of each tensor, all of one type."""
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    types: dict[str, str] = {}
    for file in folder.glob("*.safetensors"):
        for name, kind in read_header(file).types.items():
            if types.setdefault(name, kind) != kind:
                problem = f"{file}: tensor {name!r} is of the type {kind}, and {types[name]} in another file"
                raise BrokenInputError(problem, _RESTORE)
    try:
        stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except Exception as error:  # the reader raises many kinds over a damaged file
        raise BrokenInputError(f"{folder} is damaged ({first_lines(error)})", _RESTORE) from error
    return {name: tensor for name, tensor in stored.items() if isinstance(tensor, TensorStorageMetadata)}


def _require_form(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path) -> None:
    for name, wanted in like.items():
        if name not in tensors:
            raise BrokenInputError(f"{path} lacks the tensor {name!r}", _OTHER)
        tensor, what = tensors[name], f"{path}: tensor {name!r}"
        if tensor.shape != wanted.shape:
            raise BrokenInputError(f"{what} has the shape {tuple(tensor.shape)}, not {tuple(wanted.shape)}", _OTHER)
        if tensor.dtype != wanted.dtype:
            raise BrokenInputError(f"{what} is of the type {tensor.dtype}, not {wanted.dtype}", _OTHER)


def _require_covered(folder: Path, name: str, stored: "TensorStorageMetadata") -> None:
    """Refuse a tensor whose elements are not all there, once: the library would leave what is missing as it was."""
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
    """A whole tensor, divided as another one of its shape is; nothing is sent, since every process has all of it."""
    if not is_sharded(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


def _first_failure(error: "CheckpointException") -> str:
    """What the first process that failed says."""
    failures = (failure for failure, _ in error.failures.values() if isinstance(failure, Exception))
    return first_lines(next(failures, RuntimeError(str(error))))
