"""Stop texts: what is let through, and what is held back."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from tests.generation.runs import tokenizer
from tfcli.generation import stopping
from tfcli.generation.stopping import StopTexts, stop_finder

FEW = st.text("ab.", max_size=12)
STOPS = st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3)


def test_the_example_is_true():
    assert doctest.testmod(stopping).failed == 0


def first_end(text: str, stops: list[str]) -> tuple[int, int] | None:
    """Where the stop text that ends first ends and begins: the shortest beginning of the text that has one at its
    end, and there the longest."""
    for end in range(len(text) + 1):
        begins = [end - len(one) for one in stops if text[:end].endswith(one)]
        if begins:
            return end, min(begins)
    return None


@given(text=FEW, stops=STOPS, data=st.data())
def test_however_it_is_cut_into_pieces_the_same_is_let_through(text: str, stops: list[str], data: st.DataObject):
    watch, shown, rest = StopTexts(stops), "", text
    found = first_end(text, stops)
    kept = text if found is None else text[: found[1]]
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        piece, rest = rest[:size], rest[size:]
        shown += watch.push(piece)
        assert kept.startswith(shown)
        read = len(text) - len(rest)
        assert watch.stopped == (found is not None and found[0] <= read)
        # No more is held back than the longest stop text less a character.
        if not watch.stopped:
            assert read - len(shown) < max(map(len, stops), default=1)
    assert shown + watch.finish() == kept


@given(text=st.text("ab. cé日", max_size=20), wanted=st.text("ab. cé日", min_size=1, max_size=3))
def test_the_newest_token_that_completes_a_stop_text_is_found(text: str, wanted: str):
    """Told from the last tokens alone, however long the text before has become."""
    words = tokenizer("bpe")
    ids = words.encode("the cat " * 30 + text)
    ends = stop_finder(words, [wanted], [words.encode("the")])
    assert ends is not None
    for length in range(len(words.encode("the cat " * 30)), len(ids) + 1):
        tail = words.decode(ids[:length]).rstrip("\ufffd")
        if tail.endswith(wanted) and not words.decode(ids[: length - 1]).endswith(wanted):
            assert ends(ids[:length])
        if wanted not in tail:
            assert not ends(ids[:length])


def test_half_a_character_is_no_replacement_character():
    words = tokenizer("bpe")
    ends = stop_finder(words, ["\ufffd"], [[]])
    assert ends is not None
    assert not ends(words.encode("🙂")[:2])
    assert ends([*words.encode("🙂")[:2], *words.encode("a")])


def test_no_stop_texts_ask_nothing():
    assert stop_finder(tokenizer("bpe"), [], [[1]]) is None


def test_the_prompt_decides_on_the_space_before():
    """Words joined by spaces: "sat" behind "the" is " sat", and behind "(" it is "sat"."""
    words = tokenizer("word")
    sat, the = words.encode("sat"), words.encode("the")
    for stops, prompts, answer in [
        ([" sat"], [the], True),
        ([" sat"], [the, []], False),
        (["sat"], [the, []], True),
    ]:
        ends = stop_finder(words, stops, prompts)
        assert ends is not None
        assert ends(sat) == answer
