"""Opening sources: files, folders and globs, datasets of the hub, several joined; and built-in corpora, `builtin:NAME`,
which need no file and no network: stories, pt-en, the interpreter's own documentation."""

import glob
import os
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, product, zip_longest
from pathlib import Path
from random import Random

from tfcli.addresses import hidden, require_known
from tfcli.corpora import TASKS, Document, Documents, Kind, Pair, Part, Source, is_blank, reading, tables, texts
from tfcli.corpora.columns import require_column_count
from tfcli.corpora.compression import COMPRESSIONS
from tfcli.corpora.hub import HUB_PREFIX, open_hub
from tfcli.corpora.notices import table_notices, table_records
from tfcli.corpora.remote import is_remote, remote_files
from tfcli.errors import BrokenInputError, Remark, TfcliError, UsageError, near, shortened
from tfcli.files import digest
from tfcli.recipe.data import Header, OnBadRecord

_WHOLE = (".txt", ".md")
_TABLES = (".jsonl", ".csv", ".tsv", ".parquet", ".arrow")
_KNOWN = f"{' '.join(_WHOLE + _TABLES)}, plain or with {' or '.join(COMPRESSIONS)}"


def _open_files(name: str, how: reading.How) -> Source:
    """The files that a path, a folder, a glob or a URL names, in the order of their names. A document is a record of a
    table, or a whole `.txt` or `.md` file, or a part of it between separators."""
    files = _stored_files(name)
    for file in files:
        _require_known(file)
    begin = len(how.tables)
    readers = [_reader(file, how) for file in files]
    readings = how.tables[begin:]
    return _file_source(name, how, files, lambda: chain.from_iterable(read() for read in readers), readings)


def require_there(name: str) -> None:
    """Refuse a path, a glob, or two joined by a comma, that is not there (naming the nearest), or of unknown kind."""
    is_one = is_there(name) or "," not in name
    for part in [name] if is_one else filter(None, name.split(",")):
        for file in _stored_files(part):
            if is_one:  # of two parallel files, any two are text
                _require_known(file)


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


def _open_parallel(name: str, how: reading.How) -> Source:
    """The pairs of two parallel text files whose paths are joined by a comma."""
    names = name.split(",")
    if len(names) != 2 or not all(names):
        raise UsageError(f"'{name}' names {len(names)} files", "join two parallel files by one comma, as in a.de,a.en")
    files = [reading.remote_file(part) if is_remote(part) else reading.stored_file(_path(part)) for part in names]
    for file in files:
        if file.suffix in _TABLES:
            remedy = "join two plain text files, one sentence a line, or name the table alone"
            raise UsageError(f"{file.label} is a table", remedy)
        reading.require_content(file)
    source, target = files
    bad = [how.bad_records(file.require_unchanged) for file in files]

    def documents() -> Iterator[Document]:
        lengths = [0, 0]
        for sides in zip_longest(*(_sentences(file, one.reading()) for file, one in zip(files, bad, strict=True))):
            for side, sentence in enumerate(sides):
                lengths[side] += sentence is not None
            if lengths[0] == lengths[1]:
                yield Pair(*sides)
        if lengths[0] != lengths[1]:
            problem = f"{source.label} has {lengths[0]} lines and {target.label} has {lengths[1]}"
            raise BrokenInputError(problem, "give files in which line n of one translates line n of the other")

    return _file_source(name, replace(how, columns=None), files, documents)


def _sentences(file: reading.StoredFile, report: reading.Report) -> Iterator[str]:
    """The lines; one that is left out is blank, and so its pair is left out."""
    for line in reading.read_lines(file, report):
        yield "" if isinstance(line, reading.BadLine) else line.removesuffix("\n").removesuffix("\r")


def _open_standard_input(how: reading.How) -> Source:
    """What arrives on standard input: text, or pairs separated by a tab, one a line."""
    spool = reading.standard_input(how.kind)
    file = reading.StoredFile(spool.path, "Standard input", ".txt" if how.kind == "text" else ".tsv", spool=spool)
    reading.require_content(file)
    begin = len(how.tables)
    documents = _reader(file, how)
    return _file_source("-", how, [file], documents, how.tables[begin:])


def _file_source(
    name: str,
    how: reading.How,
    files: Sequence[reading.StoredFile],
    documents: Documents,
    readings: Sequence[reading.FileReading] = (),
) -> Source:
    """The source of some files; `readings` says how those that are tables are read."""
    numbers = {file.label: number for number, file in enumerate(files)}
    new = [(numbers[one.label], one.is_header, one.places) for one in readings if one.is_new]

    def fingerprint() -> str:
        contents = [file.digest() for file in files]
        # What is left out here is read as it always was, so that earlier datasets keep their fingerprints.
        more: dict[str, object] = {"separator": how.separator, "skip": how.skips or None}
        if new:
            more["tables"] = new
        return digest("files", how.kind, how.columns, contents, *([more] if any(more.values()) else []))

    return Source(
        (name,),
        how.kind,
        documents,
        fingerprint,
        require_unchanged=partial(_require_unchanged, files),
        tables=table_records(name, readings),
    )


def _require_unchanged(read: Sequence[reading.StoredFile | Source]) -> None:
    for one in read:
        one.require_unchanged()


def _reader(file: reading.StoredFile, how: reading.How) -> Documents:
    is_text, bad = file.suffix in _WHOLE, how.bad_records(file.require_unchanged)
    try:
        reading.require_content(file)
    except BrokenInputError:
        if not is_text or not how.skips or how.separator:
            raise
    if how.kind in TASKS:
        from tfcli.corpora.labelled import labelled_texts

        return labelled_texts(file, how, bad)
    if not is_text:
        return tables.table_documents(file, how, bad)
    if how.kind == "pairs":
        problem = f"{file.label} holds text, where pairs are needed"
        raise UsageError(problem, "name a table with two columns, or two parallel files joined by a comma")
    return lambda: reading.read_texts(file, how.separator, bad)


def _stored_files(name: str) -> list[reading.StoredFile]:
    name = name.removeprefix("file://")
    require_known(name)  # on Windows a path, too, may be that of another machine
    if is_remote(name):
        return [reading.remote_file(url) for url in remote_files(name)]
    return [reading.stored_file(path) for path in _paths(name)]


def _paths(name: str) -> list[Path]:
    if is_there(name) and expanded(name).is_dir():
        return _paths_below(expanded(name))
    if is_there(name) or not glob.has_magic(name):
        return [_path(name)]
    matches = [Path(match) for match in sorted(_matches(expanded(name).parts))]
    paths = [path for path in matches if path.is_file() and path.stat().st_size > 0]
    if not paths:
        raise UsageError(f"No file with anything in it matches '{name}'", "check the pattern")
    return paths


def _paths_below(folder: Path) -> list[Path]:
    """The files of known kinds below a folder that something is in, in the order of their names, each once."""
    for made in ("recipe.toml", "manifest.json"):  # a README.md of a run is no text
        if (folder / made).is_file():
            problem = f"{folder} is a folder that tfcli has made (it has {made}), not a text"
            raise UsageError(problem, f"name its files, for example {folder / '*.txt'}")
    found: dict[Path, Path] = {}
    for match in sorted(_matches((*Path(glob.escape(str(folder))).parts, "**"))):
        path = Path(match)
        if reading.name_parts(path)[0] in _WHOLE + _TABLES and path.is_file() and path.stat().st_size > 0:
            found.setdefault(path.resolve(), path)
    if not found:
        problem = f"No file in the folder {folder} has text in it that is known by its name"
        raise UsageError(problem, f"fill it with files that end in {_KNOWN}, or name another one")
    return list(found.values())


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
            raise UsageError(f"{name} is a folder, where a file is needed", f"name one in it, such as {path / 'a.txt'}")
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


# What turns a document of a known format into text, on most systems.
_CONVERTERS = {
    **dict.fromkeys((".epub", ".docx", ".odt", ".rtf", ".tex", ".html", ".htm"), "pandoc {file} -t plain -o {text}"),
    ".pdf": "pdftotext {file} {text}",
    **dict.fromkeys((".mobi", ".azw3"), "ebook-convert {file} {text}"),
}


def _require_known(file: reading.StoredFile) -> None:
    converter = _CONVERTERS.get(file.path.suffix.lower())
    if converter is not None and not file.url:
        text = file.path.with_suffix(".txt")
        command = converter.format(file=shlex.quote(str(file.path)), text=shlex.quote(str(text)))
        problem = f"{file.label} is a document, and tfcli reads plain text"
        raise UsageError(problem, f"make {text.name} of it, as with `{command}`, and name that")
    if file.suffix not in _WHOLE + _TABLES:
        remedy = f"name a file that ends in {_KNOWN}"
        if not file.url and (other := _half(file.path)):
            remedy = f"for pairs, write {file.label},{other}; for text, {remedy}"
        raise UsageError(f"{file.label} is of no known kind", remedy)


def _half(path: Path) -> Path | None:
    """The one file beside this that has its name and the letters of another language: train.en.gz of train.de.gz."""
    name, _, rest = path.name.partition(".")
    language, *compression = rest.split(".")
    others = [one for one in path.parent.glob(".".join((glob.escape(name), "??", *compression))) if one != path]
    return others[0] if len(others) == 1 and len(language) == 2 else None


PREFIX = "builtin:"
DEFAULT: dict[Kind, str] = {  # what is read where no source is named
    "text": f"{PREFIX}stories",
    "pairs": f"{PREFIX}pt-en",
    "classify": f"{PREFIX}bank",
    "tag": f"{PREFIX}word-classes",
}
KINDS: dict[str, Kind] = {  # the built-in corpora, and what each holds
    **dict.fromkeys(("stories", "python-docs", "repeats"), "text"),
    "pt-en": "pairs",
    "bank": "classify",
    "word-classes": "tag",
}


def open_source(
    names: str | Sequence[str],
    kind: Kind,
    *,
    columns: Sequence[str] | None = None,
    header: Header = "auto",
    max_documents: int | None = None,
    seed: int = 0,
    separator: str | None = None,
    on_bad_record: OnBadRecord = "refuse",
    as_before: bool = False,
) -> Source:
    """Open one source or several, one after the other; whatever can be known before reading is checked here. A name is
    a path, a folder, a glob or a URL, two parallel files joined by a comma (pairs), `-` for standard input,
    `builtin:NAME`, or `hf:owner/name[:config][@split]`. Blank documents, and pairs with a blank side, are left out. Of
    tables, `columns` are read, one for text and two for pairs (None: the obvious ones); of everything, no more than
    `max_documents` (None: all, or a generator's own number). `header` says whether the first row of a CSV or TSV file
    names its columns ("auto": that is decided, and what is not plain is said by a `Remark`); `as_before`: as versions
    before `data.header` decided. A `separator` stands between two documents of a plain text
    file; None: a whole file is one. A record that cannot be read is refused, or left out and counted
    (`Source.skipped`). A UsageError where a source does not exist, is empty or of the wrong kind, or holds nothing but
    white space; a BrokenInputError where the first document is binary, not UTF-8, or truncated; a TfcliError where the
    hub or a remote file cannot be reached, or a file has changed while it was read; an AddressNeeded where a name is a
    network address that this user has never typed."""
    names = tuple(hidden(name) for name in ([names] if isinstance(names, str) else names))
    require_column_count(kind, columns)
    how = reading.How(kind, columns, separator, on_bad_record == "skip", header, as_before)
    opened = []
    for name in names:
        begin = len(how.tables)
        opened.append(_open_one(name, how, max_documents, seed))
        for notice in table_notices(name, how.tables[begin:]):
            warnings.warn(notice, Remark, stacklevel=2)
    source = opened[0] if len(opened) == 1 else joined(opened, kind)
    documents, divided, fingerprint = source.documents, source.divided, source.fingerprint
    source = replace(
        source,
        documents=lambda: islice((one for one in documents() if not _has_blank(one)), max_documents),
        divided=divided and (lambda: islice((one for one in divided() if not _has_blank(one[1])), max_documents)),
        fingerprint=fingerprint if max_documents is None else lambda: digest(fingerprint(), max_documents),
        skipped=how.skipped,
    )
    if next(source.documents(), None) is None:
        held = {"text": "no text", "pairs": "no pair with text on both sides"}.get(kind, "no labelled text")
        left_out = "".join(source.skipped().first[:1])
        found = f"There is {held} in {', '.join(names)}{' that can be read: ' if left_out else ''}{left_out}"
        raise UsageError(found, "name a source with some")
    return source


def _open_one(name: str, how: reading.How, max_documents: int | None, seed: int) -> Source:
    if how.kind in TASKS and (name == "-" or name.startswith(HUB_PREFIX)):
        raise UsageError(f"Labelled texts are read from files, and {name} is none", "write them to a file, and name it")
    if name == "-":
        return _open_standard_input(how)
    if name.startswith(PREFIX):
        return _open_builtin(name, how.kind, max_documents, seed)
    if name.startswith(HUB_PREFIX):
        return open_hub(name, how)
    if "," in name and not is_there(name):
        if how.kind == "pairs":
            return _open_parallel(name, how)
        if all(map(is_there, name.split(","))):
            problem = f"{name} holds pairs, in parallel files, where text is needed"
            raise UsageError(problem, "name one of the files; an encoder-decoder reads pairs")
    return _open_files(name, how)


def _open_builtin(name: str, kind: Kind, max_documents: int | None, seed: int) -> Source:
    """The built-in source called `name`; without `max_documents` a generator makes its own number of them."""
    short = name.removeprefix(PREFIX)
    if short not in KINDS:
        guess = near(short, KINDS)
        known = ", ".join(f"{PREFIX}{known}" for known in KINDS)
        problem = f"There is no built-in source '{shortened(name)}', only {known}"
        raise UsageError(problem, f"perhaps {PREFIX}{guess[0]} was meant" if guess else "choose one of those")
    if KINDS[short] != kind:
        held, needed = KINDS[short], DEFAULT.get(kind, "a file")
        raise UsageError(f"{name} holds {held}, not {kind}", f"use {needed}" + f", or --task {held}" * (held in TASKS))
    if kind in TASKS:
        from tfcli.corpora.labelled import BUILT_IN
        from tfcli.corpora.stories import FORMAT_VERSION

        return Source((name,), kind, lambda: BUILT_IN[name](seed), lambda: digest(name, FORMAT_VERSION, seed))
    if short == "repeats":
        wanted, made_up = max_documents or _REPEATING, partial(_repeating, seed)
        return Source((name,), kind, lambda: map(made_up, range(wanted)), lambda: digest(name, wanted, seed))
    if short == "python-docs":
        return Source((name,), kind, python_docs, lambda: digest(name, digest(list(python_docs()))))

    from tfcli.corpora import pt_en, stories

    made = stories if short == "stories" else pt_en
    count = max_documents or made.DEFAULT_DOCUMENTS

    def divided() -> Iterator[tuple[Part, Document]]:
        for pair in islice(pt_en.pairs(seed), count):
            yield "validation" if pair.validation else "train", Pair(pair.source, pair.target)

    fingerprint = partial(digest, name, made.FORMAT_VERSION, seed, count)
    if made is stories:
        return Source((name,), kind, lambda: islice(stories.stories(seed), count), fingerprint)
    return Source((name,), kind, lambda: (document for _, document in divided()), fingerprint, divided)


_REPEATING = 8000  # documents
_MADE_UP = tuple(map("".join, product("bdfgklmnprst", "aeiou", "klmnr")))[::2]


def _repeating(seed: int, number: int) -> str:
    """Three random phrases of 4 to 12 made-up words repeated in random order; only the last time tells what is next."""
    rng = Random(f"{seed}/{number}")
    phrases = [rng.choices(_MADE_UP, k=rng.choice(range(4, 13))) for _ in range(3)]
    return " ".join(word for _ in range(12) for word in rng.choice(phrases))


def python_docs() -> Iterator[str]:
    """The interpreter's help topics (`pydoc_data.topics`) in the order of their names; other versions have others."""
    from pydoc_data.topics import topics

    return (topics[name] for name in sorted(topics))


def looks_like_pairs(names: Sequence[str], columns: Sequence[str] | None, header: Header = "auto") -> bool:
    """Whether the first name is one of pairs: two files joined by a comma, a built-in of pairs, or a table with two
    columns for pairs and none for text. Of standard input and the hub it is not known."""
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
        first = _stored_files(name)[0]
        return first.suffix in _TABLES and tables.holds_pairs(first, header)
    except TfcliError:  # which is said where it is read
        return False


def joined(sources: Sequence[Source], kind: Kind) -> Source:
    """Several sources as one; it has its own division when all of them have."""
    divisions = [source.divided for source in sources if source.divided]
    return Source(
        tuple(name for source in sources for name in source.names),
        kind,
        lambda: chain.from_iterable(source.documents() for source in sources),
        lambda: digest([source.fingerprint() for source in sources]),
        divided=None if len(divisions) < len(sources) else lambda: chain.from_iterable(one() for one in divisions),
        require_unchanged=partial(_require_unchanged, sources),
        tables=tuple(chain.from_iterable(source.tables for source in sources)),
    )


def _has_blank(document: Document) -> bool:
    return any(map(is_blank, texts(document)))
