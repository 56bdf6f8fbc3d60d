"""``data.json``: which text a run was trained on."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tfcli.errors import BrokenInputError, shortened
from tfcli.files import read_json, write_json
from tfcli.records.dataset import DatasetRecord

FORMAT_VERSION = 1


@dataclass(frozen=True)
class RunData:
    """The sources by name, and the fingerprint of the dataset that was made of them."""

    kind: str
    sources: list[str]
    split: str
    fingerprint: str
    train_documents: int
    validation_documents: int


def write_run_data(path: Path, record: DatasetRecord) -> None:
    """Write `data.json`."""
    counts = record.train.documents, record.validation.documents
    data = RunData(record.kind, list(record.sources), record.split, record.fingerprint, *counts)
    write_json(path, {"format_version": FORMAT_VERSION, **asdict(data)})


def read_run_data(path: Path) -> RunData:
    """Read `data.json`.

    Raises:
        BrokenInputError: it is damaged, or of a format version this tfcli does not read.
    """
    from pydantic import TypeAdapter, ValidationError

    values = read_json(path)
    version = values.pop("format_version", None) if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        raise BrokenInputError(
            f"{path} has format version {version!r}, and this tfcli reads {FORMAT_VERSION}",
            "use the tfcli that wrote it",
        )
    try:
        data = TypeAdapter(RunData).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise BrokenInputError(
            f"{path} is damaged at {first['loc'][0]!r} ({first['msg']})", "restore the file from a copy of the run"
        ) from error
    if not re.fullmatch("[0-9a-z]{1,64}", data.fingerprint):  # it names a folder of the cache
        given = shortened(repr(data.fingerprint))
        raise BrokenInputError(f"{path} is damaged: {given} is no fingerprint", "restore the file")
    return data
