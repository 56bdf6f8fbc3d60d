"""Translations against references: BLEU and chrF as sacrebleu computes them, and exact matches."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TranslationScores:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), 0 to 100; `exact_match` is a share, 0 to 1."""

    bleu: float
    chrf: float
    exact_match: float
    signature: str


def score_translations(translations: Sequence[str], references: Sequence[str]) -> TranslationScores:
    """Score each translation against its one reference."""
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(), CHRF()
    exact = sum(ours == theirs for ours, theirs in zip(translations, references, strict=True))
    return TranslationScores(
        bleu=bleu.corpus_score(list(translations), [list(references)]).score,
        chrf=chrf.corpus_score(list(translations), [list(references)]).score,
        exact_match=exact / len(references),
        signature=f"{bleu.get_signature()} {chrf.get_signature()}",
    )
