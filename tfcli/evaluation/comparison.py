"""Comparison of two runs on the same documents by a paired bootstrap, which tells a better run from chance."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tfcli.errors import UsageError
from tfcli.evaluation.bootstrap import FEWEST_UNITS, interval, p_value, resampled
from tfcli.evaluation.evaluate import score_table, scores_of
from tfcli.evaluation.measure import Measured
from tfcli.records.evaluation import Comparison, Difference, Scores
from tfcli.runs.load import LoadedRun

_OF_TOKENS = ("loss", "accuracy", "pseudo_perplexity")  # scores a token, which only models of one tokenizer share
_OF_TEXT = ("bits_per_byte", "bits_per_character")
_OF_TRANSLATIONS = ("bleu", "chrf", "exact_match")


def require_comparable(run: LoadedRun, other: LoadedRun) -> None:
    """Refuse, before anything is scored, two runs whose scores mean different things."""
    ours, theirs = run.config.model.objective, other.config.model.objective
    if ours != theirs:
        raise UsageError(
            f"{other.directory.path} was trained for {theirs} and {run.directory.path} for {ours}, so that their "
            "scores do not mean the same",
            "compare runs of one architecture",
        )
    if ours == "mlm" and not _one_tokenizer(run, other):
        raise UsageError(
            f"{run.directory.path} and {other.directory.path} have different tokenizers, and scores of masked tokens "
            "depend on what a token is",
            "compare encoders of one tokenizer",
        )


def compared(first: Measured, second: Measured, notes: tuple[str, ...] = ()) -> Scores:
    """The scores of the first run, with those of the second and their differences inside; a `UsageError` where they
    were scored on different text."""
    ours, theirs = (one.data.record().validation for one in (first, second))
    if any(getattr(ours, name) != getattr(theirs, name) for name in ("documents", "bytes", "characters")):
        raise UsageError(
            f"{first.run.directory.path} was scored on {ours.documents:,} documents of {ours.bytes:,} bytes and "
            f"{second.run.directory.path} on {theirs.documents:,} of {theirs.bytes:,}, which is other text",
            "name a SOURCE that both can read",
        )
    differences = tuple(_differences(first, second))
    comparison = Comparison(scores_of(second), differences, (*notes, *_notes(first, second)))
    return replace(scores_of(first), comparison=comparison)


def _differences(first: Measured, second: Measured) -> Iterator[Difference]:
    tables = score_table(first), score_table(second)
    columns = tables[0].sums.shape[1]
    draws = None
    if _units_agree(first, second) and first.cells.units >= FEWEST_UNITS:
        # Both runs' sums of a document stand in one row, so that a resample holds the same documents of both.
        draws = resampled(np.concatenate([table.sums for table in tables], axis=1))
    of_tokens = _OF_TOKENS if _one_tokenizer(first.run, second.run) else ()
    names = (*of_tokens, *_OF_TEXT, *_OF_TRANSLATIONS) if _same_cells(first, second) else _OF_TRANSLATIONS
    for name in names:
        scores = [table.scores[name] for table in tables if name in table.scores]
        if len(scores) < 2:
            continue
        ours, theirs = (float(score(table.sums.sum(0))) for score, table in zip(scores, tables, strict=True))
        difference = theirs - ours
        if draws is None:
            yield Difference(name, ours, theirs, difference=difference, interval=None, p_value=None)
            continue
        by_chance = scores[1](draws[:, columns:]) - scores[0](draws[:, :columns])
        yield Difference(
            name,
            ours,
            theirs,
            difference=difference,
            interval=interval(by_chance),
            p_value=p_value(by_chance, difference),
        )


def _same_cells(first: Measured, second: Measured) -> bool:
    """Whether the same pairs have a part in the loss; of text everything has."""
    return first.cells.kind != "pairs" or bool(((first.sums.tokens > 0) == (second.sums.tokens > 0)).all())


def _units_agree(first: Measured, second: Measured) -> bool:
    """Whether unit n is the same text for both; stretches are, of one tokenizer."""
    same = first.cells.kind == second.cells.kind and first.cells.units == second.cells.units
    return same and (first.cells.kind != "stretches" or _one_tokenizer(first.run, second.run))


def _one_tokenizer(run: LoadedRun, other: LoadedRun) -> bool:
    return run.tokenizer.fingerprint == other.tokenizer.fingerprint


def _notes(first: Measured, second: Measured) -> Iterator[str]:
    if not _one_tokenizer(first.run, second.run):
        yield "The tokenizers differ, so that losses a token are not compared; bits of the same text are."
    if not _same_cells(first, second):
        yield "The runs leave different pairs out of the loss, so that it is not compared."
    if _windows(first) != _windows(second):
        yield f"The contexts differ: {_windows(first)} and {_windows(second)}."
    if first.unscored != second.unscored:
        yield "The runs do not score the same first tokens: nothing stands before those that are left out."
    if not _units_agree(first, second):
        yield "There are too few documents to resample the two together, so that there is no p-value."


def _windows(measured: Measured) -> str:
    stride = "" if measured.stride in (None, measured.context) else f" at a stride of {measured.stride}"
    stream = ", over all texts in a row" if measured.run.recipe.train.windows == "stream" else ""
    return f"{measured.context} tokens{stride}{stream}"
