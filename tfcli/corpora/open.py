"""Opening sources: files, folders and globs, built-in languages, datasets of the hub; several joined.

The built-in corpora, `builtin:NAME`, need no file and no network: stories, pt-en, the interpreter's own documentation.
"""

import glob
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from tfcli.corpora import PARTS, Document, Kind, Pair, Part, Source, is_blank, texts
from tfcli.corpora.reading import (
    COMPRESSIONS,
    StoredFile,
    read_lines,
    read_text,
    require_content,
    standard_input,
    stored_file,
)
from tfcli.corpora.tables import (
    Record,
    Table,
    columnar_records,
    delimited_table,
    json_lines,
    record_table,
    require_column_count,
    table_documents,
)
from tfcli.errors import BrokenInputError, TfcliError, UsageError, first_lines, near, shortened
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


HUB_PREFIX = "hf:"
_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?::(?P<config>[^:@]+))?(?:@(?P<split>[\w.-]+))?", re.ASCII)


def open_hub(name: str, kind: Kind, columns: Sequence[str] | None) -> Source:
    """A dataset on the hub: the split that is named, else its own train and validation, else train."""
    match = _NAME.fullmatch(name)
    if not match:
        remedy = "write hf:owner/name, hf:owner/name:config or hf:owner/name@split"
        raise UsageError(f"'{shortened(name)}' is no dataset name", remedy)
    with _explained(name):
        import datasets

        datasets.disable_progress_bars()  # what goes wrong is said by our errors: its own bars and log lines are off
        for library in ("datasets", "huggingface_hub", "fsspec"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        builder = datasets.load_dataset_builder(match["name"], match["config"])
        streams = builder.as_streaming_dataset()
    splits = _splits(name, match["split"], list(streams))
    readers = {split: _hub_reader(name, split, streams[split], kind, columns) for split in splits}

    def divided() -> Iterator[tuple[Part, Document]]:
        for part in PARTS:
            for document in readers[part]():
                yield part, document

    return Source(
        (name,),
        kind,
        lambda: (document for read in readers.values() for document in read()),
        lambda: digest(match["name"], builder.config_id, builder.hash, splits, kind, columns),
        divided if splits == list(PARTS) else None,
    )


def _splits(name: str, wanted: str | None, there: list[str]) -> list[str]:
    if wanted is None and "train" in there:
        return list(PARTS) if "validation" in there else ["train"]
    if wanted not in there:
        problem = f"{name} has no split '{wanted or 'train'}', only {', '.join(there)}"
        raise UsageError(problem, f"name one of them, as in {name.split('@')[0]}@{there[0]}")
    return [wanted]


def _hub_reader(
    name: str, split: str, stream: Any, kind: Kind, columns: Sequence[str] | None
) -> Callable[[], Iterator[Document]]:
    def records(outer: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
        with _explained(name):
            undecoded = stream.decode(False)  # images and sound stay as they are stored
            for number, record in enumerate(undecoded.select_columns(list(outer)) if outer else undecoded, 1):
                yield f"Record {number}", record

    return table_documents(record_table(f"{name.split('@')[0]}@{split}", records), kind, columns)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever the libraries raise while they fetch `name` into one plain sentence."""
    try:
        yield
    except (FileNotFoundError, ValueError, RuntimeError) as error:
        unknown = isinstance(error, FileNotFoundError)
        remedy = "check the name on huggingface.co/datasets" if unknown else "name another dataset or configuration"
        raise UsageError(f"Cannot read {name}: {first_lines(error)}", remedy) from error
    except Exception as error:
        remedy = "check the network, or download the dataset and name its files"
        raise TfcliError(f"Cannot fetch {name}: {first_lines(error)}", remedy) from error


PREFIX = "builtin:"
DEFAULT: dict[Kind, str] = {"text": f"{PREFIX}stories", "pairs": f"{PREFIX}pt-en"}
"""What is read where no source is named."""

KINDS: dict[str, Kind] = {"stories": "text", "python-docs": "text", "pt-en": "pairs"}
"""The built-in corpora, and what each holds."""


def open_source(
    names: str | Sequence[str],
    kind: Kind,
    *,
    columns: Sequence[str] | None = None,
    max_documents: int | None = None,
    seed: int = 0,
) -> Source:
    """Open one source or several, one after the other; whatever can be known before reading is checked here.

    A name is a path or a glob, two parallel files joined by a comma (pairs), `-` for standard input,
    `builtin:NAME`, or `hf:owner/name[:config][@split]`. Blank documents, and pairs with a blank side, are
    left out.

    Args:
        columns: the columns to read from tables, one for text and two for pairs; None: the obvious ones.
        max_documents: read no more than this in all; None: everything, or a generator's own number.
        seed: of the built-in generators.

    Raises:
        UsageError: a source does not exist, is empty or of the wrong kind, or holds nothing but white space.
        BrokenInputError: the first document shows that a file is binary, not UTF-8, or truncated.
        TfcliError: the hub cannot be reached.

    Example:
        >>> open_source(["builtin:stories"], "text", max_documents=1000).names
        ('builtin:stories',)
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    require_column_count(kind, columns)
    source = _joined([_open_one(name, kind, columns, max_documents, seed) for name in names], kind)
    documents, divided = source.documents, source.divided

    def whole() -> Iterator[Document]:
        return islice((one for one in documents() if not _has_blank(one)), max_documents)

    def parts() -> Iterator[tuple[Part, Document]]:
        assert divided is not None
        return islice((one for one in divided() if not _has_blank(one[1])), max_documents)

    fingerprint = source.fingerprint
    source = replace(
        source,
        documents=whole,
        divided=divided and parts,
        fingerprint=fingerprint if max_documents is None else lambda: digest(fingerprint(), max_documents),
    )
    if next(source.documents(), None) is None:
        held = "no text" if kind == "text" else "no pair with text on both sides"
        raise UsageError(f"There is {held} in {', '.join(names)}", "name a source with some")
    return source


def _open_one(name: str, kind: Kind, columns: Sequence[str] | None, max_documents: int | None, seed: int) -> Source:
    if name == "-":
        return open_standard_input(kind, columns)
    if name.startswith(PREFIX):
        return _open_builtin(name, kind, max_documents, seed)
    if name.startswith(HUB_PREFIX):
        return open_hub(name, kind, columns)
    if "," in name and not is_there(name):
        if kind == "pairs":
            return open_parallel(name)
        if all(map(is_there, name.split(","))):
            problem = f"{name} holds pairs, in parallel files, where text is needed"
            raise UsageError(problem, "name one of the files; an encoder-decoder reads pairs")
    return open_files(name, kind, columns)


def _open_builtin(name: str, kind: Kind, max_documents: int | None, seed: int) -> Source:
    """The built-in source called `name`; without `max_documents` a generator makes its own number of them."""
    short = name.removeprefix(PREFIX)
    if short not in KINDS:
        guess = near(short, KINDS)
        known = ", ".join(f"{PREFIX}{known}" for known in KINDS)
        problem = f"There is no built-in source '{shortened(name)}', only {known}"
        raise UsageError(problem, f"perhaps {PREFIX}{guess[0]} was meant" if guess else "choose one of those")
    if KINDS[short] != kind:
        raise UsageError(f"{name} holds {KINDS[short]}, not {kind}", f"use {DEFAULT[kind]}")
    if short == "python-docs":
        return Source((name,), kind, python_docs, lambda: digest(name, digest(list(python_docs()))))

    from tfcli.corpora import pt_en, stories

    made = stories if short == "stories" else pt_en
    count = max_documents or made.DEFAULT_DOCUMENTS

    def divided() -> Iterator[tuple[Part, Document]]:
        for pair in islice(pt_en.pairs(seed), count):
            yield "validation" if pair.validation else "train", Pair(pair.source, pair.target)

    return Source(
        (name,),
        kind,
        lambda: islice(stories.stories(seed), count) if made is stories else (document for _, document in divided()),
        lambda: digest(name, made.FORMAT_VERSION, seed, count),
        None if made is stories else divided,
    )


def python_docs() -> Iterator[str]:
    """The interpreter's help topics (`pydoc_data.topics`) in the order of their names; other versions have others."""
    from pydoc_data.topics import topics

    return (topics[name] for name in sorted(topics))


def looks_like_pairs(names: Sequence[str], columns: Sequence[str] | None) -> bool:
    """Whether the first name is one of pairs: two files joined by a comma, a built-in of pairs, or a table that has two
    columns and none called text. Of standard input and the hub it is not known."""
    name = names[0]
    if name == "-" or name.startswith(HUB_PREFIX):
        return False
    if name.startswith(PREFIX):
        return KINDS.get(name.removeprefix(PREFIX)) == "pairs"
    if not is_there(name) and "," in name:
        return True
    if columns is not None:
        return len(columns) == 2
    try:
        found = table_columns(name)
    except TfcliError:  # which is said where it is read
        return False
    return "text" not in found and (len(found) == 2 or {"source", "target"} <= {*found})


def _joined(sources: Sequence[Source], kind: Kind) -> Source:
    """Several sources as one; it has its own division when all of them have."""
    if len(sources) == 1:
        return sources[0]
    divisions = [source.divided for source in sources if source.divided]

    def divided() -> Iterator[tuple[Part, Document]]:
        return chain.from_iterable(division() for division in divisions)

    return Source(
        tuple(name for source in sources for name in source.names),
        kind,
        lambda: chain.from_iterable(source.documents() for source in sources),
        lambda: digest([source.fingerprint() for source in sources]),
        divided if len(divisions) == len(sources) else None,
    )


def _has_blank(document: Document) -> bool:
    return any(is_blank(text) for text in texts(document))
