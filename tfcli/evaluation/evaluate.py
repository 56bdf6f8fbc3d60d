"""Score a run on the whole of a prepared part."""

from dataclasses import asdict
from typing import Any

import numpy as np

from tfcli.data.dataset import PreparedDataset
from tfcli.evaluation.bootstrap import FEWEST_UNITS, interval, resampled
from tfcli.evaluation.buckets import buckets
from tfcli.evaluation.measure import Measured, Report, Targets, measure
from tfcli.evaluation.scoring import perplexity
from tfcli.evaluation.settings import AS_IT_IS, EvaluationSettings
from tfcli.evaluation.table import ScoreTable, score_table
from tfcli.records.evaluation import Intervals, Scores
from tfcli.runs.foreign import Usual, ends_of, usual
from tfcli.runs.load import LoadedRun


def evaluate(
    run: LoadedRun,
    data: PreparedDataset,
    settings: EvaluationSettings = AS_IT_IS,
    report: Report = lambda event: None,
    *,
    targets: Targets = lambda: None,
) -> Scores:
    """Loss and accuracy over the validation part of `data`; for pairs, scores of translations of all of it as well.

    Args:
        targets: of pairs, as they are read from their source; asked where the tokenizer does not give them back.

    Raises:
        UsageError: the dataset was made with another tokenizer, or holds the wrong kind; the context is longer than
            the model's, or the stride than the context.
    """
    return scores_of(measure(run, data, settings, report, targets=targets))


def scores_of(measured: Measured) -> Scores:
    """The scores, with how sure each is."""
    run, sums, cells = measured.run, measured.sums, measured.cells
    record = measured.data.record()
    table = score_table(measured)
    whole = {name: float(score(table.sums.sum(0))) for name, score in table.scores.items()}
    translated, spread, pseudo = measured.translated, measured.extent, measured.pseudo
    scored = sums.tokens > 0
    known = usual(run)
    known = Usual() if known.dataset == record.fingerprint else known
    assert run.config.model.vocab_size is not None
    nameless = run.config.roles.without_token(run.config.model.vocab_size)
    return Scores(
        run=str(run.directory.path),
        precision=run.precision,
        objective=run.config.model.objective,
        sources=record.sources,
        loss=sums.loss,
        perplexity=perplexity(sums.loss),
        bits_per_byte=whole.get("bits_per_byte"),
        tokens=int(sums.tokens.sum()),
        documents=record.validation.documents,
        accuracy=sums.accuracy,
        left_out=measured.left_out,
        **({} if translated is None else asdict(translated.statistics.scores())),
        bits_per_character=whole.get("bits_per_character"),
        bytes=None if spread is None else round(float(spread.bytes[scored].sum())),
        characters=None if spread is None else round(float(spread.characters[scored].sum())),
        unknown=int(sums.unknown.sum()),
        ids_without_token=len(nameless),
        share_without_token=float(sums.nameless.sum() / sums.tokens.sum()) if nameless else None,
        context=measured.context,
        stride=measured.stride,
        **_frame(run),
        unscored=measured.unscored,
        beam=None if translated is None else translated.beam,
        references_exact=None if translated is None else translated.exact,
        pseudo_perplexity=None if pseudo is None else perplexity(pseudo.loss),
        pseudo_tokens=None if pseudo is None else int(pseudo.tokens.sum()),
        pieces_per_word=record.validation.pieces_per_word(ends_of(run)),
        usual_pieces_per_word=known.pieces,
        usual_bits_per_byte=known.bits_per_byte,
        resampled=cells.kind,
        units=cells.units,
        intervals=_intervals(table),
        buckets=buckets(measured),
    )


def _frame(run: LoadedRun) -> dict[str, Any]:
    if run.architecture == "encoder-decoder":
        return {}
    names = run.tokenizer.labels(run.config.roles.text_prefix)
    return {"windows": run.recipe.train.windows or "stream", "text_start": tuple(names)}


def _intervals(table: ScoreTable) -> Intervals:
    if len(table.sums) < FEWEST_UNITS:
        return Intervals()
    draws = resampled(table.sums)
    return Intervals(**{name: interval(np.asarray(score(draws))) for name, score in table.scores.items()})
