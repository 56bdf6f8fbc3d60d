"""BLEU and chrF of translations against references, as sacrebleu computes them, and exact matches.

Shape legend: N pairs, K sufficient statistics of a pair.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfcli.data.dataset import PairsView
from tfcli.evaluation.bootstrap import Array
from tfcli.evaluation.windows import without_frame
from tfcli.generation.generate import GrowingText, prefix_ids, translate
from tfcli.generation.stopping import stop_finder
from tfcli.models.transformer import EncoderDecoder
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class TranslationScores:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), 0 to 100; `exact_match` is a share, 0 to 1."""

    bleu: float
    chrf: float
    exact_match: float
    signature: str


@dataclass(frozen=True, eq=False)
class TranslationStatistics:
    """What the scores of any selection of pairs are computed from. Shape: bleu, chrf (N, K); exact (N,)."""

    bleu: Array
    chrf: Array
    exact: Array
    signature: str

    def scores(self, chosen: NDArray[np.int64] | slice = slice(None)) -> TranslationScores:
        """Scores of some pairs, or of all."""
        return TranslationScores(
            bleu=float(bleu_of(self.bleu[chosen].sum(0))),
            chrf=float(chrf_of(self.chrf[chosen].sum(0))),
            exact_match=float(self.exact[chosen].mean()),
            signature=self.signature,
        )


def one_line(text: str) -> str:
    """A text as a line of a file, so that the `sacrebleu` command gives a file the same score."""
    return re.sub("\r\n|\r|\n", " ", text)


def translation_statistics(translations: Sequence[str], references: Sequence[str]) -> TranslationStatistics:
    """What sacrebleu counts in each pair, both texts as a line."""
    ours, theirs = [list(map(one_line, texts)) for texts in (translations, references)]
    exact = np.array([float(one == other) for one, other in zip(ours, theirs, strict=True)])
    metrics = [_metric(name) for name in ("bleu", "chrf")]
    bleu, chrf = (np.array(metric.counts(ours, theirs), np.float64) for metric in metrics)
    return TranslationStatistics(bleu, chrf, exact, " ".join(str(metric.signature()) for metric in metrics))


def bleu_of(counts: Array) -> Array:
    """BLEU of summed counts, (…, K) → (…)."""
    return _scored("bleu", counts)


def chrf_of(counts: Array) -> Array:
    """ChrF of summed counts, (…, K) → (…)."""
    return _scored("chrf", counts)


def _scored(name: str, counts: Array) -> Array:
    score, rows = _metric(name).score, counts.reshape(-1, counts.shape[-1]).tolist()
    return np.array([score(row) for row in rows]).reshape(counts.shape[:-1])


class _Metric(NamedTuple):
    counts: Callable[[list[str], list[str]], list[list[float]]]
    score: Callable[[list[float]], float]
    signature: Callable[[], object]


def _metric(name: str) -> _Metric:
    """How sacrebleu counts in each pair and scores sums of counts, by the private methods of `significance`; where a
    version has none, public scores of single pairs, and for chrF our own counts, stand in."""
    from sacrebleu.metrics import BLEU, CHRF

    metric: Any = BLEU() if name == "bleu" else CHRF()
    counted, scored = (
        getattr(metric, f"_{job}", None) for job in ("extract_corpus_statistics", "compute_score_from_stats")
    )
    if counted is not None and scored is not None:
        return _Metric(
            lambda ours, theirs: counted(ours, [theirs]), lambda sums: scored(sums).score, metric.get_signature
        )

    def count(ours: list[str], theirs: list[str]) -> list[list[float]]:
        metric.corpus_score(ours, [theirs])  # for the signature
        if name == "chrf":
            return [*map(_chrf_counts, ours, theirs)]
        found = [metric.corpus_score([one], [[other]]) for one, other in zip(ours, theirs, strict=True)]
        return [[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in found]

    def score(sums: list[float]) -> float:
        if name == "chrf":
            return _chrf_of(np.array(sums).reshape(-1, 3))
        hits, totals = np.split(np.array(sums[2:]), 2)
        return metric.compute_bleu([*hits], [*totals], int(sums[0]), int(sums[1]), smooth_method="exp").score

    return _Metric(count, score, metric.get_signature)


def _chrf_counts(ours: str, theirs: str) -> list[float]:
    """Of each n up to 6 the n-grams of characters of ours, where theirs has any, of theirs, and those in both."""
    counts: list[float] = []
    texts = ["".join(text.split()) for text in (ours, theirs)]
    for n in range(1, 7):
        here, there = (Counter(text[at : at + n] for at in range(len(text) - n + 1)) for text in texts)
        counts += [here.total() if there else 0, there.total(), (here & there).total()]
    return counts


def _chrf_of(sums: Array) -> float:
    """Popović's F score with β = 2, of the mean precision and recall over the orders that both sides have."""
    hits = sums[(sums[:, :2] > 0).all(1)]
    precision, recall = (float((hits[:, 2] / hits[:, side]).mean()) if len(hits) else 0.0 for side in (0, 1))
    return 100 * 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


@dataclass(frozen=True, eq=False)
class Translated:
    """A line a pair, in the order of the part. `exact`: the references are the text itself and not what the tokenizer
    keeps of it."""

    outputs: list[str]
    references: list[str]
    statistics: TranslationStatistics
    exact: bool
    beam: int


def translated(
    run: LoadedRun, pairs: PairsView, references: Sequence[str], exact: bool, beam: int | None
) -> Translated:
    """Translate every pair's source, greedy or with as many beams, as the run's recipe generates otherwise.

    A source that is longer than the context is cut to it; its reference stays whole.
    """
    roles, longest = run.config.roles, run.config.model.max_seq_len
    assert isinstance(run.model, EncoderDecoder)
    room = longest - len(roles.source_start) - 1  # and for the end token
    sources = [ids[:room] for ids in without_frame(pairs.source, roles.source_start)]
    own = run.recipe.generate
    # Texts within the context, as training had them, whatever the recipe says of others.
    settings = replace(own, max_new_tokens=longest, num_samples=1, beyond_context="stop")
    if beam is not None:
        settings = replace(settings, beam=beam, beam_groups=1 if beam % own.beam_groups else own.beam_groups)
    prefix, ends = prefix_ids(run.model, run.tokenizer, settings), stop_finder(run.tokenizer, settings.stop, [()])
    found = translate(run.model, sources, roles, settings, prefix=prefix, ends=ends)
    texts = (GrowingText(run.tokenizer, "", (), settings).whole(ids, [0.0] * len(ids)) for ids in found)
    outputs = [text.text for text in texts]  # up to a stop text, where there is one
    statistics = translation_statistics(outputs, references)
    return Translated(list(map(one_line, outputs)), list(map(one_line, references)), statistics, exact, settings.beam)
