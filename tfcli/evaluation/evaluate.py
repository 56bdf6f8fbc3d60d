"""Evaluating a run, and comparing two on the same text.
Shape legend: U units, K sums of a unit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.data.dataset import PreparedDataset
from tfcli.errors import UsageError
from tfcli.evaluation.bootstrap import FEWEST_UNITS, Array, Score, p_value, resampled
from tfcli.evaluation.classification import Told
from tfcli.evaluation.intervals import (
    bounded_interval,
    difference_interval,
    mean_intervals,
    share_interval,
    unseen_error,
)
from tfcli.evaluation.measure import Measured, measure, nameless_ids
from tfcli.evaluation.translation import Translated, bleu_of, chrf_of
from tfcli.evaluation.windows import AS_IT_IS, EvaluationSettings, perplexity
from tfcli.records.evaluation import (
    Bucket,
    Comparison,
    Difference,
    Interval,
    IntervalMethod,
    Intervals,
    Scores,
    mean_method,
)
from tfcli.runs.load import LoadedRun, Usual, ends_of, usual


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Sums of each unit, (U, K), and the scores that they give, by name."""

    sums: Array
    scores: dict[str, Score]
    columns: dict[str, slice]
    """The columns that a score is computed from."""

    def score(self, name: str) -> float:
        """The score of all units."""
        return float(self.scores[name](self.sums.sum(0)))

    def score_if_known(self, name: str) -> float | None:
        """The score of all units; None where this table has no such score."""
        return self.score(name) if name in self.scores else None

    def of(self, name: str) -> Array:
        """The sums that a score is computed from."""
        return self.sums[:, self.columns[name]]


def score_table(measured: Measured) -> ScoreTable:
    """The table of one run on one text."""
    parts: list[Array] = []
    named: dict[str, Score] = {}
    columns: dict[str, slice] = {}
    end = 0
    for part, scores in _parts(measured):
        start, end = end, end + part.shape[1]
        parts.append(part)
        for name, score in scores.items():
            columns[name] = slice(start, end)
            named[name] = partial(_of_columns, score, columns[name])
    return ScoreTable(np.concatenate(parts, axis=1), named, columns)


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
        pseudo = measured.pseudo
        yield by_unit(pseudo.nats, pseudo.tokens), {"pseudo_perplexity": lambda s: np.exp(_ratio(s))}
    if measured.told is not None:
        told = measured.told
        yield told.sums, told.scores.scores
        if "exact_match" in told.scores.scores:
            yield told.scores.exact_matches(told.sums), {"exact_match": _ratio}
    if measured.translated is not None:
        counts = measured.translated.statistics
        yield counts.bleu, {"bleu": bleu_of}
        yield counts.chrf, {"chrf": chrf_of}
        yield np.stack([counts.exact, np.ones_like(counts.exact)], axis=1), {"exact_match": _ratio}


def _ratio(sums: Array) -> Array:
    return sums[..., 0] / sums[..., 1]


_SHARES = ("accuracy", "exact_match")
_MEANS = ("loss", "bits_per_byte", "bits_per_character")
_EXPONENTIALS = ("perplexity", "pseudo_perplexity")  # of means: their intervals are computed there
_LIMITS = {"macro_f1": 1.0, "entity_f1": 1.0, "span_f1": 1.0, "bleu": 100.0, "chrf": 100.0}


def _known_intervals(measured: Measured, table: ScoreTable) -> dict[str, Interval]:
    """The interval of every score that has one."""
    intervals = _intervals_of_means(table)
    for name in _SHARES:
        if name in table.scores:
            right, count = table.of(name).T
            intervals[name] = share_interval(right, count)
    intervals.update(_bounded_intervals(measured, table))
    return {name: interval for name, interval in intervals.items() if interval is not None}


def _intervals_of_means(table: ScoreTable) -> dict[str, Interval | None]:
    names = [name for name in (*_MEANS, *_EXPONENTIALS) if name in table.scores]

    def means(sums: Array) -> Array:
        values = []
        for name in names:
            value = table.scores[name](sums)
            values.append(np.log(value) if name in _EXPONENTIALS else value)
        return np.stack(values, axis=-1)

    intervals = dict(zip(names, mean_intervals(table.sums, means), strict=True))
    for name in _EXPONENTIALS:
        interval = intervals.get(name)
        if interval is not None:
            intervals[name] = (perplexity(interval[0]), perplexity(interval[1]))
    return intervals


def _bounded_intervals(measured: Measured, table: ScoreTable) -> dict[str, Interval | None]:
    names = [name for name in _LIMITS if name in table.scores]
    if not names or len(table.sums) < FEWEST_UNITS:
        return {}
    draws = resampled(table.sums)
    unseen, mistaken = _unseen_errors(measured), _mistaken(measured)
    intervals = {}
    for name in names:
        scores = np.asarray(table.scores[name](draws))
        intervals[name] = bounded_interval(scores, mistaken, unseen[name], _LIMITS[name])
    return intervals


def _interval_method(name: str, units: int) -> IntervalMethod:
    """How the interval of a score is computed."""
    if name in _SHARES:
        return "Wilson"
    if name in _LIMITS:
        return "bootstrap percentiles"
    return mean_method(units)


def _mistaken(measured: Measured) -> int:
    """How many pairs or labelled texts are not entirely right."""
    if measured.translated is not None:
        return int((measured.translated.statistics.exact == 0).sum())
    return int((measured.sums.correct < measured.sums.tokens).sum())


def _unseen_errors(measured: Measured) -> dict[str, float]:
    """For each score, the share of mistakes that these texts would not exclude if all were right."""
    errors = dict.fromkeys((*_SHARES, *_LIMITS), unseen_error(measured.cells.units))
    if measured.told is not None:
        errors.update(measured.told.scores.unseen_errors(measured.told.sums))
    return errors


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
    intervals = _known_intervals(measured, table)
    nameless = nameless_ids(run)
    predicts_text = run.recipe.objective in ("clm", "mlm")
    known = usual(run)
    if known.dataset == record.fingerprint:
        known = Usual()

    scores = Scores(
        run=str(run.directory.path),
        objective=run.recipe.objective,
        sources=record.sources,
        loss=total.loss,
        perplexity=total.perplexity,
        bits_per_byte=table.score_if_known("bits_per_byte"),
        tokens=total.tokens,
        documents=record.validation.documents,
        accuracy=total.accuracy,
        left_out=measured.left_out,
        bits_per_character=table.score_if_known("bits_per_character"),
        unknown=int(sums.unknown.sum()),
        ids_without_token=len(nameless),
        share_without_token=float(sums.nameless.sum() / total.tokens) if nameless else None,
        context=run.recipe.context,
        precision=run.precision,
        stride=measured.stride,
        windows=None if run.recipe.reads_pairs else run.recipe.train.windows or "stream",
        text_start=tuple(run.tokenizer.labels(run.config.roles.text_prefix)) if predicts_text else None,
        unscored=measured.unscored,
        resampled=cells.kind,
        pieces_per_word=record.validation.pieces_per_word(ends_of(run)),
        usual_pieces_per_word=known.pieces,
        usual_bits_per_byte=known.bits_per_byte,
        units=cells.units,
        intervals=Intervals(**intervals),
        interval_methods={name: _interval_method(name, cells.units) for name in intervals},
        buckets=tuple(buckets(measured)),
    )
    if measured.extent is not None:
        scored = sums.tokens > 0
        size_in_bytes = round(float(measured.extent.bytes[scored].sum()))
        size_in_characters = round(float(measured.extent.characters[scored].sum()))
        scores = replace(scores, bytes=size_in_bytes, characters=size_in_characters)
    if measured.pseudo is not None:
        pseudo = measured.pseudo.total
        scores = replace(scores, pseudo_perplexity=pseudo.perplexity, pseudo_tokens=pseudo.tokens)
    if measured.told is not None:
        scores = _with_labels(scores, measured.told, table)
    if measured.translated is not None:
        scores = _with_translations(scores, measured.translated, table)
    return scores


def _with_labels(scores: Scores, told: Told, table: ScoreTable) -> Scores:
    """The scores of a task head as well."""
    return replace(
        scores,
        exact_match=table.score_if_known("exact_match"),
        macro_f1=table.score_if_known("macro_f1"),
        entity_f1=table.score_if_known("entity_f1"),
        span_f1=table.score_if_known("span_f1"),
        chance=told.scores.chance(told.sums.sum(0)),
        labels=tuple(told.scores.labels),
        confusion=tuple(map(tuple, told.confusion.tolist())),
    )


def _with_translations(scores: Scores, translated: Translated, table: ScoreTable) -> Scores:
    """The scores of translations as well."""
    return replace(
        scores,
        bleu=table.score("bleu"),
        chrf=table.score("chrf"),
        exact_match=table.score("exact_match"),
        signature=translated.statistics.signature,
        bleu_tokenize=translated.statistics.bleu_tokenize,
        beam=translated.beam,
        references_exact=translated.exact,
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
    """What the second run scores more than the first, for every score that means the same of both."""
    tables = score_table(first), score_table(second)
    columns = tables[0].sums.shape[1]
    draws = None
    if _units_agree(first, second) and first.cells.units >= FEWEST_UNITS:
        # Both runs' sums of a document stand in one row, so that a resample holds the same documents of both.
        draws = resampled(np.concatenate([table.sums for table in tables], axis=1))

    # Scores of two models that happen to agree may differ on other text; those of one model do not.
    are_one_model = np.array_equal(tables[0].sums, tables[1].sums)
    unseen = {} if are_one_model else _unseen_errors(first)
    for name in _comparable_scores(first, second):
        if not all(name in table.scores for table in tables):
            continue
        score, other_score = (table.score(name) for table in tables)
        interval, p = None, None
        if draws is not None:
            by_chance = tables[1].scores[name](draws[:, columns:]) - tables[0].scores[name](draws[:, :columns])
            interval = difference_interval(by_chance, unseen.get(name, 0.0) * _LIMITS.get(name, 1.0))
            p = p_value(by_chance, other_score - score)
        yield Difference(name, score, other_score, other_score - score, interval, p_value=p)


def _comparable_scores(first: Measured, second: Measured) -> list[str]:
    """The names of the scores that mean the same of both runs."""
    names: list[str] = []
    if _same_cells(first, second):
        tells_labels = first.told is not None
        if tells_labels or _one_tokenizer(first.run, second.run):
            names += [*_OF_TOKENS, *_OF_LABELS]
        names += _OF_TEXT
    return [*names, *_OF_TRANSLATIONS]


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
        yield "The tokenizers differ, so losses per token are not compared; bits of the same text are."
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
