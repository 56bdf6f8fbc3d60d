"""``data.json`` of a run: the fingerprint of its training data, and which text that was."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tfcli.errors import BrokenInputError, shortened
from tfcli.files import read_versioned, validated, write_json
from tfcli.records.dataset import DatasetRecord, PartCounts

FORMAT_VERSION = 1
_RESTORE = "restore the file from a copy of the run"


@dataclass(frozen=True)
class RunData:
    """The sources by name, and the fingerprint of the dataset that was made of them; `validation` is None in an older
    run."""

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
    write_json(path, {"format_version": FORMAT_VERSION, **asdict(data)})


def read_run_data(path: Path) -> RunData:
    """Read `data.json`.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is damaged, or of a format version this tfcli does not read.
    """
    values = read_versioned(path, FORMAT_VERSION, remedy=_RESTORE)[1]
    data: RunData = validated(RunData, values, path, _RESTORE)
    if not re.fullmatch("[0-9a-z]{1,64}", data.fingerprint):  # it names a folder of the cache
        given = shortened(repr(data.fingerprint))
        raise BrokenInputError(f"{path} is damaged: {given} is no fingerprint", _RESTORE)
    return data
