"""What both searches for a head need: a run of the built-in corpus, sentences that it has not met, and a count."""

from collections.abc import Iterable
from typing import Literal

from tfcli.corpora.builtin import DEFAULT
from tfcli.errors import UsageError
from tfcli.records.find import Share
from tfcli.runs.load import LoadedRun

HELD_OUT_SEED = 1_000_003
"""Added to the run's own: other sentences than it was trained on."""


def require_trained_on(run: LoadedRun, kind: Literal["text", "pairs"], knows: str, remedy: str) -> None:
    """Refuse a run of another corpus than the built-in one.

    Args:
        knows: what the corpus's grammar knows.

    Raises:
        UsageError: it was imported, or trained on something else.
    """
    corpus = DEFAULT[kind]
    if run.recipe.origin.source or (run.recipe.data.source or corpus) != corpus:
        raise UsageError(f"{run.directory.path} was not trained on {corpus}, whose grammar knows {knows}", remedy)


def share(hits: Iterable[bool]) -> Share:
    """How many of them are true."""
    found = list(hits)
    return Share(int(sum(found)), len(found))
