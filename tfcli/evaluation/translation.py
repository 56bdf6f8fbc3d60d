"""BLEU and chrF of translations against references, as sacrebleu computes them, and exact matches.

Shape legend: N pairs, K sufficient statistics of a pair.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.evaluation.bootstrap import Array

_LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True)
class TranslationScores:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), 0 to 100; `exact_match` is a share, 0 to 1."""

    bleu: float
    chrf: float
    exact_match: float
    signature: str


@dataclass(frozen=True, eq=False)
class TranslationStatistics:
    """What the scores of any selection of pairs are computed from.

    Shape: bleu, chrf (N, K); exact (N,)
    """

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
    """A text as a line of a file: each end of a line in it becomes a space.

    Texts are scored as they are written, so that the `sacrebleu` command gives a file the same score.
    """
    return _LINE_END.sub(" ", text)


def translation_statistics(translations: Sequence[str], references: Sequence[str]) -> TranslationStatistics:
    """What sacrebleu counts in each pair, both texts as a line."""
    bleu, chrf = _metrics()
    ours, theirs = [list(map(one_line, texts)) for texts in (translations, references)]
    exact = [float(one == other) for one, other in zip(ours, theirs, strict=True)]
    # sacrebleu.significance works in the same way; there is no public door to these counts.
    counted, matched = (
        np.array(metric._extract_corpus_statistics(ours, [theirs]), np.float64) for metric in (bleu, chrf)
    )
    signature = f"{bleu.get_signature()} {chrf.get_signature()}"
    return TranslationStatistics(counted, matched, np.array(exact), signature)


def bleu_of(counts: Array) -> Array:
    """BLEU of summed counts, (…, K) → (…)."""
    return _scored(_metrics()[0], counts)


def chrf_of(counts: Array) -> Array:
    """chrF of summed counts, (…, K) → (…)."""
    return _scored(_metrics()[1], counts)


def _metrics() -> tuple[Any, Any]:
    from sacrebleu.metrics import BLEU, CHRF

    return BLEU(), CHRF()


def _scored(metric: Any, counts: Array) -> Array:
    rows = counts.reshape(-1, counts.shape[-1]).tolist()
    scores: list[float] = [metric._compute_score_from_stats(row).score for row in rows]
    return np.array(scores).reshape(counts.shape[:-1])
