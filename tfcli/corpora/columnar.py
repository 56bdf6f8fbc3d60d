"""`.parquet` and `.arrow` tables, streamed with the `datasets` library."""

import glob
import tempfile
from collections.abc import Iterator
from typing import Any

from tfcli.corpora.libraries import datasets_library
from tfcli.corpora.reading import StoredFile
from tfcli.corpora.records import Record, Records
from tfcli.corpora.spool import Spool
from tfcli.errors import BrokenInputError


def columnar_records(file: StoredFile) -> Records:
    """The records of a `.parquet` or `.arrow` file, one row group in memory at a time.

    These formats are read from their end, so a compressed file is first decompressed into a temporary one.

    Raises:
        BrokenInputError: it is truncated, or of another format.
    """
    spool = _decompressed(file) if file.compression else file.spool
    path = spool.path if spool else file.path

    def records(columns: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
        # `spool` is named here so that its file lives as long as this function.
        _ = spool
        try:
            stream = _stream(str(path.absolute()), file.suffix.removeprefix("."))
            for number, record in enumerate(stream.select_columns(list(columns)) if columns else stream, 1):
                yield f"Record {number}", record
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            problem = f"{file.label} is truncated or is no {file.suffix} file ({reason})"
            raise BrokenInputError(problem, "fetch or write it again") from error

    return records


def _decompressed(file: StoredFile) -> Spool:
    with file.open() as stream:
        return Spool(stream, file.label)


def _stream(path: str, builder: str) -> Any:
    # A scratch folder for the library's lock files, so that nothing is left in its cache.
    with tempfile.TemporaryDirectory(prefix="tfcli-") as scratch:
        stream = datasets_library().load_dataset(
            builder, data_files=glob.escape(path), split="train", streaming=True, cache_dir=scratch
        )
    return stream.decode(False)  # images and sound stay as they are stored
