"""builtin:python-docs: the running interpreter's own reference text, one document a help topic."""

from collections.abc import Iterator

from tfcli.files import digest


def documents() -> Iterator[str]:
    """This interpreter's help topics (`pydoc_data.topics`) in the order of their names, text as it is."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield topics[name]


def fingerprint() -> str:
    """Sixteen hex digits that change when the text does, as it does between Python versions."""
    return digest(list(documents()))
