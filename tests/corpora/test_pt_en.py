"""builtin:pt-en: a function of the source, broad, reproducible, and divided by whole combinations."""

import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise

import pytest

from tfcli.corpora.pt_en import DEFAULT_DOCUMENTS, FORMAT_VERSION, LECTURE_EVERY, PATTERNS, is_held_out, pairs
from tfcli.corpora.pt_en_phrases import FAMILIES, LEXICON, adjectives_of, text
from tfcli.corpora.stories import Draw
from tfcli.files import digest

THINGS, DRINKS = LEXICON["things"], LEXICON["drinks"]

LECTURE = [
    ("Olá, como vai você?", "Hello, how are you?"),
    ("O livro está em cima da mesa.", "The book is on the table."),
    ("Lucas irá viajar ao Rio em Dezembro.", "Lucas is travelling to Rio in December."),
    ("Em Dezembro, Lucas irá viajar ao Rio.", "Lucas is travelling to Rio in December."),
]

# When the digest changes, what users prepared from the old pairs must be made again: raise FORMAT_VERSION with it.
VERSION_AND_DIGEST = (2, "11d1ef007aac161e")


@pytest.fixture(scope="module")
def many():
    return list(islice(pairs(), 100_000))


@pytest.fixture(scope="module")
def training(many):
    return [pair for pair in many if not pair.validation]


@pytest.fixture(scope="module")
def validation(many):
    return [pair for pair in many if pair.validation]


def _words(sentence):
    return [word.strip(".,?") for word in sentence.split()]


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_the_lectures_four_pairs_come_first_and_are_for_training(seed):
    first = list(islice(pairs(seed), 4))
    assert [(pair.source, pair.target) for pair in first] == LECTURE
    assert not any(pair.validation for pair in first)


def test_a_source_has_one_target_and_one_side(many):
    targets, sides = {}, {}
    for pair in many:
        assert targets.setdefault(pair.source, pair.target) == pair.target
        assert sides.setdefault(pair.source, pair.validation) == pair.validation


def test_at_least_fifty_thousand_pairs_are_reachable(many):
    """Those drawn are reachable, so the number of different ones among them is a lower bound."""
    assert len({(pair.source, pair.target) for pair in many}) > 80_000


def test_word_types_and_patterns_and_lengths(many):
    assert len({word.lower() for pair in many for word in _words(pair.source)}) >= 300
    assert len({word.lower() for pair in many for word in _words(pair.target)}) >= 300
    assert len({pattern.name for pattern in PATTERNS}) == len(PATTERNS) >= 12
    for side in ("source", "target"):
        lengths = [len(getattr(pair, side).split()) for pair in many]
        assert sum(4 <= length <= 14 for length in lengths) > 0.9 * len(lengths)
        assert max(lengths) <= 20


def test_every_word_form_is_met_fifty_times_in_the_training_part_of_the_default_number(many):
    part = [pair for pair in many[:DEFAULT_DOCUMENTS] if not pair.validation]
    for side in ("source", "target"):
        counts = Counter(word for pair in part for word in _words(getattr(pair, side)))
        word, count = min(counts.items(), key=lambda item: item[1])
        assert count >= 50, word
        held_out = {word for pair in many if pair.validation for word in _words(getattr(pair, side))}
        assert held_out <= set(counts)


def test_validation_is_about_a_tenth(many, validation):
    assert 0.08 < len(validation) / len(many) < 0.12


def test_combinations_held_out_are_never_in_training(training, validation):
    """On the surface: "camisa branca" stands in validation sentences or in training ones, never in both."""
    seen = {False: Counter(), True: Counter()}
    for held_out, part in ((False, training), (True, validation)):
        for pair in part:
            words = _words(pair.source.lower())
            seen[held_out].update(pairwise(words))
    held_out_met = 0
    for noun in (*THINGS, *DRINKS):
        for adjective in adjectives_of(noun):
            together = (noun.pt, adjective.forms[noun.gender + "3s"])
            if is_held_out((noun.pt, adjective.pt)):
                assert seen[False][together] == 0, together
                held_out_met += seen[True][together] > 0
            else:
                assert seen[False][together] > 0, together
    assert held_out_met >= 10


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_every_pattern_has_both_sides(pattern):
    phrases = [pattern.make(Draw(f"{pattern.name}/{index}")) for index in range(600)]
    held_out = [any(map(is_held_out, phrase.combinations)) for phrase in phrases]
    assert all(phrase.combinations for phrase in phrases)
    assert 0 < sum(held_out) < 0.3 * len(phrases)


def test_a_pair_depends_on_the_seed_and_its_number_alone():
    assert list(islice(pairs(3), 50)) == list(islice(pairs(3), 50))
    assert list(islice(pairs(3), 4, 50)) != list(islice(pairs(4), 4, 50))


def test_other_pairs_have_another_version(many):
    """5,000 pairs hold the lecture's again (every 400) and every pattern."""
    first = digest(*(f"{pair.source}\t{pair.target}" for pair in many[:5000]))
    assert (FORMAT_VERSION, first) == VERSION_AND_DIGEST


def test_the_lectures_pairs_come_again(many):
    for start in range(0, 4000, LECTURE_EVERY):
        assert [(pair.source, pair.target) for pair in many[start : start + 4]] == LECTURE


def test_things_are_compared_within_their_family():
    family_of = {form: noun.kinds & FAMILIES for noun in THINGS for form in (noun.pt, noun.pt_plural)}
    [compares_things] = [pattern for pattern in PATTERNS if pattern.name == "compares_things"]
    for index in range(500):
        source, _ = text(compares_things.make(Draw(str(index))))
        one, other = (family_of[word] for word in source.split() if word in family_of)
        assert one == other != set(), source


def test_word_order_differs_by_design(many):
    """Some target position must come before an earlier one: that is what cross-attention has to show."""
    crossing = sum(_crosses(pair.alignment) for pair in many)
    assert crossing > 0.3 * len(many)


def _crosses(links):
    return any(a < c and b > d for a, b in links for c, d in links)


def test_contractions_and_articles_are_made(many):
    for pair in many:
        source = f" {pair.source.lower()} "
        for apart in (" de o ", " de a ", " de os ", " de as ", " em o ", " em a ", " a o ", " a a "):
            assert apart not in source, pair
        words = _words(pair.target.lower())
        for article, following in pairwise(words):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou"), pair


def test_alignments_stay_inside_the_sentences_and_cover_them(many):
    for pair in many[:20_000]:
        source, target = pair.source.split(), pair.target.split()
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in pair.alignment)
        assert len({i for i, _ in pair.alignment}) >= len(source) / 2
        assert len({j for _, j in pair.alignment}) >= len(target) / 2


def test_nothing_but_the_standard_library_is_loaded():
    heavy = "{'numpy', 'torch', 'datasets', 'tokenizers', 'pydantic'}"
    modules = "sys, tfcli.corpora.pt_en, tfcli.corpora.open"
    code = f"import {modules}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
