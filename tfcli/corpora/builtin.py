"""Built-in corpora, which need no file and no network: stories, pt-en and the interpreter's own documentation."""

from collections.abc import Iterator
from itertools import islice

from tfcli.corpora.source import Document, Kind, Pair, Part, Source
from tfcli.errors import UsageError, near, shortened
from tfcli.files import digest

PREFIX = "builtin:"
DEFAULT: dict[Kind, str] = {"text": f"{PREFIX}stories", "pairs": f"{PREFIX}pt-en"}
"""What is read where no source is named."""

KINDS: dict[str, Kind] = {"stories": "text", "python-docs": "text", "pt-en": "pairs"}


def open_builtin(name: str, kind: Kind, max_documents: int | None, seed: int) -> Source:
    """The built-in source called `name`, which begins with `builtin:`.

    Args:
        max_documents: how many documents a generator makes; None: its own number.
        seed: of the generators.

    Raises:
        UsageError: there is none of that name, or it is of the other kind.
    """
    short = name.removeprefix(PREFIX)
    if short not in KINDS:
        guess = near(short, KINDS)
        known = ", ".join(f"{PREFIX}{known}" for known in KINDS)
        raise UsageError(
            f"There is no built-in source '{shortened(name)}', only {known}",
            f"perhaps {PREFIX}{guess[0]} was meant" if guess else "choose one of those",
        )
    if KINDS[short] != kind:
        raise UsageError(f"{name} holds {KINDS[short]}, not {kind}", f"use {DEFAULT[kind]}")
    if short == "python-docs":
        return Source((name,), kind, python_docs, lambda: digest(name, python_docs_fingerprint()))

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
    """This interpreter's help topics (`pydoc_data.topics`) in the order of their names, text as it is."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield topics[name]


def python_docs_fingerprint() -> str:
    """Sixteen hex digits that change when the text does, as it does between Python versions."""
    return digest(list(python_docs()))
