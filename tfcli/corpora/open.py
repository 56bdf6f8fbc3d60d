"""Opening a data source: from the names that a user writes to documents that can be read.

The built-in corpora, `builtin:NAME`, need no file and no network: stories, pt-en, the interpreter's own documentation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from tfcli.corpora import hub
from tfcli.corpora.files import is_there, open_files, open_parallel, open_standard_input, table_columns
from tfcli.corpora.source import Document, Kind, Pair, Part, Source, is_blank, texts
from tfcli.corpora.tables import require_column_count
from tfcli.errors import TfcliError, UsageError, near, shortened
from tfcli.files import digest

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
    if name.startswith(hub.PREFIX):
        return hub.open_hub(name, kind, columns)
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
    if name == "-" or name.startswith(hub.PREFIX):
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
