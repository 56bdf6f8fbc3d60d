"""The template language: what a template can write is exactly what it recognises."""

import random

import pytest

from tests.support.story_judge import ends
from tfcli.corpora.stories import Grammar, filled

GRAMMAR = Grammar({"mood": "glad|very <small>", "small": "sad"})
BINDING = {"a": "Mia", "a.he": "she"}


def recognised(template: str, text: str) -> bool:
    return len(text) in ends(GRAMMAR.compile(template), text, 0, BINDING)


def test_writes_every_alternative_and_nothing_else() -> None:
    # Two alternatives for the mood, one of them with a rule in it, times an optional word: four texts.
    node = GRAMMAR.compile("{a} was [not |]<mood>, {a.he} said.")
    rng = random.Random(0)
    assert {filled(node, rng.random, BINDING) for _ in range(200)} == {
        "Mia was glad, she said.",
        "Mia was not glad, she said.",
        "Mia was very sad, she said.",
        "Mia was not very sad, she said.",
    }


@pytest.mark.parametrize("text", ["ab", "aab", "b"])
def test_tries_every_length_of_an_ambiguous_choice(text: str) -> None:
    # After "a" the first choice may have taken "" or "a", the second the rest: no greedy dead end.
    assert recognised("[|a][|a]b", text)


@pytest.mark.parametrize("text", ["aaab", "a", "abb", ""])
def test_refuses_what_it_cannot_write(text: str) -> None:
    node = GRAMMAR.compile("[|a][|a]b")
    assert len(text) not in ends(node, text, 0, BINDING)


def test_a_slot_matches_what_it_is_bound_to_and_an_unbound_slot_nothing() -> None:
    assert recognised("{a}", "Mia")
    assert not recognised("{a}", "Tom")
    assert not recognised("[{b}|{a}]{b}", "MiaMia")


@pytest.mark.parametrize("template", ["a [b", "a b] [", "a {b c}", "a > b"])
def test_a_malformed_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="not a template"):
        GRAMMAR.compile(template)
