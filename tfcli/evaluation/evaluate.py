"""Evaluating a run, and comparing two on the same text.
Shape legend: U units, K sums of a unit."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfcli.data.dataset import PreparedDataset
from tfcli.errors import UsageError
from tfcli.evaluation.bootstrap import FEWEST_UNITS, Array, Score, interval, p_value, resampled
from tfcli.evaluation.measure import Measured, measure, nameless_ids
from tfcli.evaluation.translation import bleu_of, chrf_of
from tfcli.evaluation.windows import AS_IT_IS, EvaluationSettings
from tfcli.records.evaluation import Bucket, Comparison, Difference, Intervals, Scores
from tfcli.runs.load import LoadedRun, Usual, ends_of, usual


class ScoreTable(NamedTuple):
    """Sums of each unit, (U, K), and the scores that they give, by name."""

    sums: Array
    scores: dict[str, Score]

    def score(self, name: str) -> float:
        """That of all units."""
        return float(self.scores[name](self.sums.sum(0)))


def score_table(measured: Measured) -> ScoreTable:
    """The table of one run on one text."""
    columns, named, end = [], dict[str, Score](), 0
    for column, scores in _parts(measured):
        start, end = end, end + column.shape[1]
        columns.append(column)
        named |= {name: partial(_of_columns, score, slice(start, end)) for name, score in scores.items()}
    return ScoreTable(np.concatenate(columns, axis=1), named)


def _of_columns(score: Score, columns: slice, sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return score(sums[..., columns])


def _parts(measured: Measured) -> Iterator[tuple[Array, dict[str, Score]]]:
    """Columns, and the scores of these columns."""
    cells, sums = measured.cells, measured.sums

    def by_unit(*columns: NDArray[np.number]) -> Array:
        return np.stack([np.bincount(cells.unit, column, cells.units) for column in columns], axis=1)

    yield by_unit(sums.nats, sums.tokens), {"loss": _ratio, "perplexity": lambda s: np.exp(_ratio(s))}
    yield by_unit(sums.correct, sums.tokens), {"accuracy": _ratio}
    if measured.extent is not None:
        bits = sums.nats / np.log(2)
        scored = sums.tokens > 0
        yield by_unit(bits, measured.extent.bytes * scored), {"bits_per_byte": _ratio}
        yield by_unit(bits, measured.extent.characters * scored), {"bits_per_character": _ratio}
    if measured.pseudo is not None:
        yield by_unit(measured.pseudo.nats, measured.pseudo.tokens), {"pseudo_perplexity": lambda s: np.exp(_ratio(s))}
    if measured.told is not None:
        yield measured.told.sums, measured.told.scores.scores
    if measured.translated is not None:
        counts = measured.translated.statistics
        yield counts.bleu, {"bleu": bleu_of}
        yield counts.chrf, {"chrf": chrf_of}
        yield np.stack([counts.exact, np.ones_like(counts.exact)], axis=1), {"exact_match": _ratio}


def _ratio(sums: Array) -> Array:
    return sums[..., 0] / sums[..., 1]


_LAST = np.array([factor << power for power in range(2, 40) for factor in (2, 3)])
"""The longest of each bucket of lengths: 8, 12, 16, 24, 32, 48 tokens, and so on."""


def evaluate(run: LoadedRun, data: PreparedDataset, settings: EvaluationSettings = AS_IT_IS, **more: Any) -> Scores:
    """The scores of what `measure` finds, which says what is taken and raised."""
    return scores_of(measure(run, data, settings, **more))


def scores_of(measured: Measured) -> Scores:
    """The scores, with how sure each is."""
    run, sums, total, cells = measured.run, measured.sums, measured.sums.total, measured.cells
    record = measured.data.record()
    table = score_table(measured)
    scored, pairs = sums.tokens > 0, run.recipe.reads_pairs
    known = Usual() if (known := usual(run)).dataset == record.fingerprint else known
    draws = resampled(table.sums) if len(table.sums) >= FEWEST_UNITS else None
    intervals = {} if draws is None else {name: interval(np.asarray(one(draws))) for name, one in table.scores.items()}
    nameless, one_by_one = nameless_ids(run), run.recipe.objective in ("clm", "mlm")
    given: dict[str, Any] = {"bits_per_byte": None} | {name: table.score(name) for name in table.scores}
    given |= {name: getattr(total, name) for name in ("loss", "perplexity", "accuracy", "tokens")}
    given |= {name: getattr(measured, name) for name in ("left_out", "stride", "unscored")}
    if (pseudo := measured.pseudo) is not None:
        given |= {"pseudo_perplexity": pseudo.total.perplexity, "pseudo_tokens": pseudo.total.tokens}
    if (spread := measured.extent) is not None:
        given |= {name: round(float(getattr(spread, name)[scored].sum())) for name in ("bytes", "characters")}
    if (made := measured.translated) is not None:
        given |= {"signature": made.statistics.signature, "beam": made.beam, "references_exact": made.exact}
    if measured.told is not None:
        of_labels, confusion, scores = measured.told
        given |= {"chance": scores.chance(of_labels.sum(0)), "labels": tuple(scores.labels)}
        given |= {"confusion": tuple(map(tuple, confusion.tolist()))}
    return Scores(
        run=str(run.directory.path),
        precision=run.precision,
        objective=run.recipe.objective,
        sources=record.sources,
        documents=record.validation.documents,
        unknown=int(sums.unknown.sum()),
        ids_without_token=len(nameless),
        share_without_token=float(sums.nameless.sum() / total.tokens) if nameless else None,
        context=run.recipe.context,
        windows=None if pairs else run.recipe.train.windows or "stream",
        text_start=tuple(run.tokenizer.labels(run.config.roles.text_prefix)) if one_by_one else None,
        pieces_per_word=record.validation.pieces_per_word(ends_of(run)),
        usual_pieces_per_word=known.pieces,
        usual_bits_per_byte=known.bits_per_byte,
        resampled=cells.kind,
        units=cells.units,
        intervals=Intervals(**intervals),
        buckets=tuple(buckets(measured)),
        **given,
    )


def buckets(measured: Measured) -> Iterator[Bucket]:
    """The scores of each bucket of lengths that is not empty, the shortest first."""
    number = np.searchsorted(_LAST, measured.lengths)
    sums = measured.sums.grouped(number[measured.cells.document], int(number.max()) + 1)
    for bucket in np.unique(number).tolist():
        here = np.flatnonzero(number == bucket)
        tokens = int(sums.tokens[bucket])
        yield Bucket(
            shortest=int(_LAST[bucket - 1]) + 1 if bucket else 1,
            longest=int(_LAST[bucket]),
            documents=len(here),
            loss=float(sums.nats[bucket]) / tokens if tokens else None,
            accuracy=float(sums.correct[bucket]) / tokens if tokens else None,
            **({} if measured.translated is None else measured.translated.statistics.scores(here)),
        )


_OF_TOKENS = ("loss", "accuracy", "pseudo_perplexity")  # scores a token, which only models of one tokenizer share
_OF_TEXT = ("bits_per_byte", "bits_per_character")
_OF_TRANSLATIONS = ("bleu", "chrf", "exact_match")
_OF_LABELS = ("macro_f1", "entity_f1", "span_f1")


def require_comparable(run: LoadedRun, other: LoadedRun) -> None:
    """Refuse, before anything is scored, two runs whose scores mean different things."""
    (a, ours), (b, theirs) = ((one.directory.path, one.recipe.objective) for one in (run, other))
    if ours != theirs:
        problem = f"{b} was trained for {theirs} and {a} for {ours}, so that their scores do not mean the same"
        raise UsageError(problem, "compare runs of one architecture and objective")
    if run.config.model.labels != other.config.model.labels:
        remedy = "compare runs that were trained on the same labels"
        raise UsageError(f"{a} and {b} tell different labels apart", remedy)
    if ours not in ("clm", "seq2seq", "completion", "classify", "tag") and not _one_tokenizer(run, other):
        problem = f"{a} and {b} have different tokenizers, and scores of masked tokens depend on what a token is"
        raise UsageError(problem, "compare runs of one tokenizer")


def compared(first: Measured, second: Measured, notes: tuple[str, ...] = ()) -> Scores:
    """The scores of the first run, with those of the second and their differences inside; a `UsageError` where they
    were scored on different text."""
    ours, theirs = (one.data.record().validation for one in (first, second))
    if any(getattr(ours, name) != getattr(theirs, name) for name in ("documents", "bytes", "characters")):
        problem = f"{first.run.directory.path} was scored on {ours.documents:,} documents of {ours.bytes:,} bytes and "
        problem += f"{second.run.directory.path} on {theirs.documents:,} of {theirs.bytes:,}, which is other text"
        raise UsageError(problem, "name a SOURCE that both can read")
    comparison = Comparison(scores_of(second), tuple(_differences(first, second)), (*notes, *_notes(first, second)))
    return replace(scores_of(first), comparison=comparison)


def _differences(first: Measured, second: Measured) -> Iterator[Difference]:
    tables = score_table(first), score_table(second)
    columns = tables[0].sums.shape[1]
    are_enough = _units_agree(first, second) and first.cells.units >= FEWEST_UNITS
    # Both runs' sums of a document stand in one row, so that a resample holds the same documents of both.
    draws = resampled(np.concatenate([table.sums for table in tables], axis=1)) if are_enough else None
    is_alike = first.told is not None or _one_tokenizer(first.run, second.run)  # what a token or a label is
    scored_alike = ((*_OF_TOKENS, *_OF_LABELS) if is_alike else ()) + _OF_TEXT if _same_cells(first, second) else ()
    for name in (name for name in (*scored_alike, *_OF_TRANSLATIONS) if all(name in table.scores for table in tables)):
        ours, theirs = (table.score(name) for table in tables)
        sure, p = None, None
        if draws is not None:
            by_chance = tables[1].scores[name](draws[:, columns:]) - tables[0].scores[name](draws[:, :columns])
            sure, p = interval(by_chance), p_value(by_chance, theirs - ours)
        yield Difference(name, ours, theirs, difference=theirs - ours, interval=sure, p_value=p)


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
    context = measured.run.recipe.context
    stride = "" if measured.stride in (None, context) else f" at a stride of {measured.stride}"
    stream = ", over all texts in a row" if measured.run.recipe.train.windows == "stream" else ""
    return f"{context} tokens{stride}{stream}"
