"""`.parquet` and `.arrow` tables, read with pyarrow: the `datasets` library would count a download on the hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfcli.corpora.reading import StoredFile
from tfcli.corpora.records import Record, Records
from tfcli.corpora.spool import Spool
from tfcli.errors import BrokenInputError, first_lines

_ROWS = 256  # turned into records at a time


def columnar_records(file: StoredFile) -> Records:
    """The records of a `.parquet` or `.arrow` file, a few hundred rows, or a batch as it was written, in memory at a
    time.

    These formats are read from their end, so a compressed file is first decompressed into a temporary one.

    Raises:
        BrokenInputError: it is truncated, or of another format.
    """
    spool = _decompressed(file) if file.compression else file.spool
    path = spool.path if spool else file.path
    batches = _parquet if file.suffix == ".parquet" else _arrow

    def records(columns: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
        # `spool` is named here so that its file lives as long as this function.
        _ = spool
        import pyarrow

        number = 0
        try:
            for batch in batches(path, columns):
                for record in batch.to_pylist():
                    number += 1
                    yield f"Record {number}", record
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            problem = f"{file.label} is truncated or is no {file.suffix} file ({first_lines(error)})"
            raise BrokenInputError(problem, "fetch or write it again") from error

    return records


def _decompressed(file: StoredFile) -> Spool:
    with file.open() as stream:
        return Spool(stream, file.label)


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as table:
        # Without columns the first record is what is wanted.
        yield from table.iter_batches(_ROWS if columns else 1, columns=list(columns) or None)


def _arrow(path: Path, columns: tuple[str, ...]) -> Iterator[Any]:
    """Of a stream, or of a file with a footer, which begins with six letters of its own."""
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        has_footer = file.read(6) == b"ARROW1"
        file.seek(0)
        with (pyarrow.ipc.open_file if has_footer else pyarrow.ipc.open_stream)(file) as table:
            numbers = range(table.num_record_batches) if has_footer else None
            for batch in map(table.get_batch, numbers) if numbers is not None else table:
                names = [name for name in columns if name in batch.schema.names]
                chosen = batch.select(names) if columns else batch.slice(0, 1)
                chosen.validate(full=True)  # what its offsets point at is read without a look
                for first in range(0, len(chosen), _ROWS):
                    yield chosen.slice(first, _ROWS)
