"""Scores of translations: sacrebleu's own, and exact matches by hand."""

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from tests.pipeline.corpora import text
from tfcli.evaluation.bootstrap import resampled
from tfcli.evaluation.intervals import percentile_interval
from tfcli.evaluation.translation import bleu_of, chrf_of, one_line, translation_statistics

REFERENCES = ["the cat sat on the mat .", "she went to the bank of the river .", "it was cold ."]
TRANSLATIONS = ["the cat sat on a mat .", "she went to the bank of the river .", "It was warm ."]


def test_bleu_and_chrf_are_sacrebleu_s():
    scores = translation_statistics(TRANSLATIONS, REFERENCES).scores()
    assert scores["bleu"] == sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score
    assert 30 < scores["bleu"] < 90
    assert scores["bleu"] != scores["chrf"]


def test_bleu_by_hand():
    """ "a b c d e" against "a b c d f": 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples
    match; the geometric mean is (4/5 · 3/4 · 2/3 · 1/2)^¼ = 0.2^¼, and equal lengths cost nothing."""
    assert translation_statistics(["a b c d e"], ["a b c d f"]).scores()["bleu"] == pytest.approx(100 * 0.2**0.25)


def test_exact_matches_by_hand():
    """The second of three; capitals and spaces count."""
    assert translation_statistics(TRANSLATIONS, REFERENCES).scores()["exact_match"] == pytest.approx(1 / 3)
    assert translation_statistics(["It was cold ."], ["it was cold ."]).scores()["exact_match"] == 0.0
    assert translation_statistics(["it was cold . "], ["it was cold ."]).scores()["exact_match"] == 0.0


def test_perfect_and_empty_translations():
    perfect = translation_statistics(REFERENCES, REFERENCES).scores()
    assert (perfect["bleu"], perfect["chrf"], perfect["exact_match"]) == (pytest.approx(100), pytest.approx(100), 1.0)
    empty = translation_statistics([""] * 3, REFERENCES).scores()
    assert (empty["bleu"], empty["chrf"], empty["exact_match"]) == (0.0, 0.0, 0.0)


def test_the_signature_says_how_it_was_computed():
    signature = translation_statistics(TRANSLATIONS, REFERENCES).signature
    assert f"version:{sacrebleu.__version__}" in signature
    assert "tok:13a" in signature
    assert "nc:6" in signature, "chrF's characters"


def test_as_many_translations_as_references():
    with pytest.raises(ValueError, match="zip"):
        translation_statistics(TRANSLATIONS[:2], REFERENCES).scores()


def test_any_selection_is_scored_from_the_counts_as_sacrebleu_scores_its_texts():
    counts = translation_statistics(TRANSLATIONS, REFERENCES)
    for chosen in ([0, 1], [2, 2, 0], [1]):
        ours, theirs = [TRANSLATIONS[n] for n in chosen], [REFERENCES[n] for n in chosen]
        scores = counts.scores(np.array(chosen))
        assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(ours, [theirs]).score)
        assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(ours, [theirs]).score)


def test_many_sums_are_scored_at_once():
    counts = translation_statistics(TRANSLATIONS, REFERENCES)
    sums = np.stack([counts.bleu.sum(0), counts.bleu[1:].sum(0)])
    assert bleu_of(sums).tolist() == [counts.scores()["bleu"], counts.scores(slice(1, None))["bleu"]]
    assert chrf_of(counts.chrf.sum(0)) == counts.scores()["chrf"]


class PublicDoors:
    """A metric of a sacrebleu that has no private methods of these names."""

    def __init__(self, kind: type) -> None:
        metric = kind()
        self.corpus_score, self.get_signature = metric.corpus_score, metric.get_signature
        self.compute_bleu = getattr(metric, "compute_bleu", None)


def test_a_sacrebleu_without_its_private_counts_gives_the_same_scores(monkeypatch: pytest.MonkeyPatch):
    """One translation is empty, one reference is, one pair is too short for the longest n-grams."""
    ours, theirs = [*TRANSLATIONS, "", "a b", "ção"], [*REFERENCES, "it was", "", "a ção"]

    def scored() -> tuple[list[float], str]:
        counts = translation_statistics(ours, theirs)
        chosen = [counts.scores(np.array(pairs)) for pairs in ([*range(6)], [2, 5, 5], [3], [4, 4], [5])]
        return [score for one in chosen for score in (one["bleu"], one["chrf"])], counts.signature

    expected, signature = scored()
    for kind in (BLEU, CHRF):
        monkeypatch.setattr(sacrebleu.metrics, kind.__name__, lambda kind=kind, **_: PublicDoors(kind))
    found, again = scored()
    assert found == pytest.approx(expected)
    assert again == signature


def test_line_ends_become_spaces():
    assert one_line("a\r\nb\nc\rd e") == "a b c d e"
    assert translation_statistics(["a b\nc"], ["a b c"]).scores()["exact_match"] == 1.0


def test_intervals_are_sacrebleu_s_own():
    """Its bootstrap draws otherwise; the middle and the half width agree to a tenth of that."""
    references = text(150).splitlines()
    translations = [line.replace("the", "a") if number % 3 else line for number, line in enumerate(references)]
    counts = translation_statistics(translations, references)
    pairs = ((BLEU(), bleu_of(resampled(counts.bleu))), (CHRF(), chrf_of(resampled(counts.chrf))))
    for metric, draws in pairs:
        theirs = metric.corpus_score(translations, [references], n_bootstrap=1000)
        low, high = percentile_interval(draws) or (0, 0)
        assert (low + high) / 2 == pytest.approx(float(theirs._mean), abs=0.1 * float(theirs._ci))
        assert (high - low) / 2 == pytest.approx(float(theirs._ci), rel=0.1)
