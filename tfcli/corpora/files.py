"""Text files as a source: paths, globs, two parallel files, and standard input."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from tfcli.corpora.reading import (
    COMPRESSIONS,
    StoredFile,
    read_lines,
    read_text,
    require_content,
    standard_input,
    stored_file,
)
from tfcli.corpora.source import Document, Kind, Pair, Source
from tfcli.corpora.tables import Table, columnar_records, delimited_table, json_lines, record_table, table_documents
from tfcli.errors import BrokenInputError, UsageError, near
from tfcli.files import digest

_WHOLE = (".txt", ".md")
_TABLES = (".jsonl", ".csv", ".tsv", ".parquet", ".arrow")


def open_files(name: str, kind: Kind, columns: Sequence[str] | None) -> Source:
    """The files that a path or a glob names, in the order of their names. A document is a record of a table, or a whole
    `.txt` or `.md` file."""
    files = [stored_file(path) for path in _paths(name)]
    for file in files:
        _require_known(file)
    readers = [_reader(file, kind, columns) for file in files]
    return _file_source(name, kind, columns, files, lambda: chain.from_iterable(read() for read in readers))


def table_columns(name: str) -> tuple[str, ...]:
    """The columns of text in the first file that a path or a glob names; none where that is no table."""
    file = stored_file(_paths(name)[0])
    return _table(file, None).columns if file.suffix in _TABLES else ()


def require_there(name: str) -> None:
    """Refuse a path, a glob, or two paths joined by a comma, of which nothing is there, and a file of an unknown kind;
    the UsageError names the nearest that is there."""
    is_one = is_there(name) or "," not in name
    for part in [name] if is_one else filter(None, name.split(",")):
        for path in _paths(part):
            if is_one:  # of two parallel files, any two are text
                _require_known(stored_file(path))


def is_there(name: str) -> bool:
    """True when a file or folder has this very name; a name no file can have is simply not there."""
    try:
        return expanded(name).exists()
    except OSError:
        return False


def expanded(name: str) -> Path:
    """The path that a name means; `~name` stays as it is where nobody has that name."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def open_parallel(name: str) -> Source:
    """The pairs of two parallel text files whose paths are joined by a comma."""
    names = name.split(",")
    if len(names) != 2 or not all(names):
        raise UsageError(f"'{name}' names {len(names)} files", "join two parallel files by one comma, as in a.de,a.en")
    files = [stored_file(_path(part)) for part in names]
    for file in files:
        if file.suffix in _TABLES:
            remedy = "join two plain text files, one sentence a line, or name the table alone"
            raise UsageError(f"{file.label} is a table", remedy)
        require_content(file)
    source, target = files

    def documents() -> Iterator[Document]:
        lengths = [0, 0]
        for sides in zip_longest(_sentences(source), _sentences(target)):
            for side, sentence in enumerate(sides):
                lengths[side] += sentence is not None
            if lengths[0] == lengths[1]:
                yield Pair(*sides)
        if lengths[0] != lengths[1]:
            problem = f"{source.label} has {lengths[0]} lines and {target.label} has {lengths[1]}"
            raise BrokenInputError(problem, "give files in which line n of one translates line n of the other")

    return _file_source(name, "pairs", None, files, documents)


def _sentences(file: StoredFile) -> Iterator[str]:
    for line in read_lines(file):
        yield line.removesuffix("\n").removesuffix("\r")


def open_standard_input(kind: Kind, columns: Sequence[str] | None) -> Source:
    """What arrives on standard input: one text, or pairs separated by a tab, one a line."""
    spool = standard_input(kind)
    file = StoredFile(spool.path, "Standard input", ".txt" if kind == "text" else ".tsv", spool=spool)
    require_content(file)
    return _file_source("-", kind, columns, [file], _reader(file, kind, columns))


def _file_source(
    name: str,
    kind: Kind,
    columns: Sequence[str] | None,
    files: Sequence[StoredFile],
    documents: Callable[[], Iterator[Document]],
) -> Source:
    def fingerprint() -> str:
        return digest("files", kind, columns, [file.digest() for file in files])

    return Source((name,), kind, documents, fingerprint)


def _reader(file: StoredFile, kind: Kind, columns: Sequence[str] | None) -> Callable[[], Iterator[Document]]:
    require_content(file)
    if file.suffix not in _WHOLE:
        return table_documents(_table(file, columns), kind, columns)
    if kind == "pairs":
        problem = f"{file.label} holds text, where pairs are needed"
        raise UsageError(problem, "name a table with two columns, or two parallel files joined by a comma")

    return lambda: iter((read_text(file),))


def _table(file: StoredFile, columns: Sequence[str] | None) -> Table:
    if file.suffix in (".csv", ".tsv"):
        return delimited_table(file, columns)
    return record_table(file.label, json_lines(file) if file.suffix == ".jsonl" else columnar_records(file))


def _paths(name: str) -> list[Path]:
    if is_there(name) or not glob.has_magic(name):
        return [_path(name)]
    matches = [Path(match) for match in sorted(_matches(expanded(name).parts))]
    paths = [path for path in matches if path.is_file() and path.stat().st_size > 0]
    if not paths:
        raise UsageError(f"No file with anything in it matches '{name}'", "check the pattern")
    return paths


def _matches(parts: Sequence[str]) -> set[str]:
    """What a pattern names. `**` enters a folder once, by whatever name: a link may lead back to where it came from."""
    if "**" not in parts:
        return set(glob.glob(os.path.join("", *parts)))  # noqa: PTH118, PTH207 (a path has no empty end)
    place = parts.index("**")
    outer, inner = parts[:place], parts[place + 1 :] or ("*",)
    found, entered = set(), set()
    for begin in sorted(glob.glob(os.path.join(*outer, ""))) if outer else [""]:  # noqa: PTH118, PTH207
        for folder, below, _ in os.walk(begin or os.curdir, followlinks=True):
            if (real := Path(folder).resolve()) in entered:
                below.clear()
            else:
                below[:] = sorted(one for one in below if not one.startswith("."))  # hidden: named, or not meant
                entered.add(real)
                found |= _matches((*Path(glob.escape(folder)).parts, *inner))
    return found


def _path(name: str) -> Path:
    path = expanded(name)
    try:
        if path.is_dir():
            raise UsageError(f"{name} is a folder, not a file", f"name its files, for example {path / '*.txt'}")
        if path.is_file():
            return path
        if path.exists():
            problem = f"{name} is a pipe or a device, and may never end"
            raise UsageError(problem, "name a file, or pipe it in and name -")
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError as error:
        raise UsageError(f"Cannot read {name}: {error.strerror}", "check the path and its permissions") from error
    guess = near(path.name, siblings)
    remedy = f"perhaps {path.with_name(guess[0])} was meant" if guess else "check the path"
    raise UsageError(f"There is no file '{name}'", remedy)


def _require_known(file: StoredFile) -> None:
    if file.suffix not in _WHOLE + _TABLES:
        known = f"{' '.join(_WHOLE + _TABLES)}, plain or with {' or '.join(COMPRESSIONS)}"
        remedy = f"name a file that ends in {known}"
        if other := _half(file.path):
            remedy = f"for pairs, write {file.label},{other}; for text, {remedy}"
        raise UsageError(f"{file.label} is of no known kind", remedy)


def _half(path: Path) -> Path | None:
    """The one file beside this that has its name and the letters of another language: train.en.gz of train.de.gz."""
    name, _, rest = path.name.partition(".")
    language, *compression = rest.split(".")
    pattern = ".".join((glob.escape(name), "??", *compression))
    others = [other for other in path.parent.glob(pattern) if other != path]
    return others[0] if len(others) == 1 and len(language) == 2 else None
