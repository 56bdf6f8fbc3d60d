"""``config.json`` and ``data.json`` of a run, and the header of its safetensors files, read without a weight."""

import math
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from tfcli.errors import BrokenInputError, TfcliError, UsageError, shortened
from tfcli.files import read_versioned, validated, write_json
from tfcli.recipe.loading import build_recipe, read_toml
from tfcli.recipe.model import ModelSection
from tfcli.records.dataset import DatasetRecord, PartCounts
from tfcli.records.roles import TokenRoles

FORMAT_VERSION = 3
_BEFORE_TEXT_START = 2  # where bos begins every text, whatever an imported tokenizer has, and one token ends it
RUN_DATA_VERSION = 1
_RESTORE = "restore the file from a copy of the run"


@dataclass(frozen=True)
class RunConfig:
    """The model's section, the ids of the token roles, and what ties weights and tokenizer to this run."""

    model: ModelSection
    roles: TokenRoles
    tokenizer_fingerprint: str
    run_id: str


def imported_by_old_rule(run: Path) -> str | None:
    """The origin of a run imported before its own tokenizer said what begins a text; else None."""
    try:
        read_versioned(run / "config.json", _BEFORE_TEXT_START, remedy=_RESTORE)
        return str(read_toml(run / "recipe.toml")["origin"]["source"])
    except (TfcliError, OSError, ValueError, KeyError, TypeError):
        return None


def write_config(path: Path, config: RunConfig) -> None:
    """Write `config.json`."""
    write_json(path, {"format_version": FORMAT_VERSION, **asdict(config)})


def read_config(path: Path) -> RunConfig:
    """Read `config.json`: a `UsageError` where it is not there, a `BrokenInputError` where it cannot be used."""
    values = read_versioned(path, FORMAT_VERSION, _BEFORE_TEXT_START, remedy=_RESTORE)[1]
    try:
        config: RunConfig = validated(RunConfig, values, path, _RESTORE)
        model = build_recipe({"model": {k: v for k, v in values["model"].items() if v is not None}}).model
    except UsageError as error:
        raise BrokenInputError(f"{path} is damaged ({error.problem})", _RESTORE) from error
    return replace(config, model=model)


@dataclass(frozen=True)
class RunData:
    """The sources, and the fingerprint of the dataset made of them; an older run has no `validation`."""

    kind: str
    sources: list[str]
    split: str
    fingerprint: str
    train_documents: int
    validation_documents: int
    validation: PartCounts | None = None


def write_run_data(path: Path, record: DatasetRecord) -> None:
    """Write `data.json`."""
    counts = record.train.documents, record.validation.documents
    data = RunData(record.kind, list(record.sources), record.split, record.fingerprint, *counts, record.validation)
    write_json(path, {"format_version": RUN_DATA_VERSION, **asdict(data)})


def read_run_data(path: Path) -> RunData:
    """Read `data.json`. Raises what `read_config` raises."""
    data: RunData = validated(RunData, read_versioned(path, RUN_DATA_VERSION, remedy=_RESTORE)[1], path, _RESTORE)
    if not re.fullmatch("[0-9a-z]{1,64}", data.fingerprint):  # it names a folder of the cache
        raise BrokenInputError(f"{path} is damaged: {shortened(repr(data.fingerprint))} is no fingerprint", _RESTORE)
    return data


_REMEDY = "restore it, or resume from a checkpoint"


class Header(NamedTuple):
    """`shapes` and `types`, as the file calls them, by name; and what is said beside the tensors."""

    shapes: dict[str, tuple[int, ...]]
    types: dict[str, str]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """Read a header: a `UsageError` where there is no such file, a `BrokenInputError` where it is damaged."""
    if not path.is_file():  # a pipe would never end
        raise UsageError(f"{path} is no safetensors file that is there", _REMEDY)
    try:
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(tensor.get_shape()) for name, tensor in tensors.items()}
            return Header(shapes, {n: t.get_dtype() for n, t in tensors.items()}, file.metadata() or {})
    except (SafetensorError, OSError) as error:
        what = "truncated" if re.search("not fully covered|IncompleteBuffer", str(error)) else "no safetensors file"
        raise BrokenInputError(f"{path} is {what}", _REMEDY) from error


def count_numbers(path: Path) -> int:
    """A model's parameters by a file's header; a `BrokenInputError` where it holds other than weights."""
    header = read_header(path)
    for name, kind in header.types.items():
        if "F" not in kind:
            problem = f"{path}: tensor {name!r} is of the type {kind}, and weights are floating-point"
            raise BrokenInputError(problem, _REMEDY)
    return sum(map(math.prod, header.shapes.values()))
