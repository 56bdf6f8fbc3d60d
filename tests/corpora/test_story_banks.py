"""Sentences with a bank: which word decides, and what stands around it."""

from itertools import islice

from tests.support.story_judge import parse_story
from tfcli.corpora.stories import bank_sentences, stories

FIRST = "One day, Tom wanted to see the lost boat, so he ran to the bank landing."
SECOND = 'Ada hoped to find the coins, so she went to the bank counter!" And so on.'


def test_the_last_telling_word_decides():
    river, money = bank_sentences(f"{FIRST} {SECOND}")
    assert (river.sense, river.word(river.deciding[-1]), river.word(river.bank)) == ("river", "boat", "bank")
    assert (money.sense, money.word(money.deciding[-1])) == ("money", "coins")
    assert river.text == river.sentence == FIRST
    assert money.text == f"{FIRST} {SECOND.removesuffix(' And so on.')}"
    assert money.sentence == SECOND.removesuffix(" And so on.")
    assert money.word(money.bank + 1) == "counter"
    assert (river.contested, money.contested) == (False, True)


def test_content_words_are_those_that_do_not_only_hold_the_sentence_together():
    [one] = bank_sentences(FIRST)
    assert [one.word(n) for n in one.content()] == [
        "day",
        "Tom",
        "wanted",
        "see",
        "lost",
        "boat",
        "ran",
        "bank",
        "landing",
    ]


def test_in_the_lectures_sentences_the_underlined_words_decide():
    lecture = "I swam across the river to get to the other bank. I walked across the road to get cash from the bank."
    river, money = bank_sentences(lecture)
    assert [[one.word(number) for number in one.deciding] for one in (river, money)] == [["swam", "river"], ["cash"]]


def test_words_of_a_sentence_before_do_not_decide_with_those_of_the_last():
    [one] = bank_sentences("Tom saw a fish. He had cash and fish, so he swam to the bank.")
    assert [one.word(number) for number in one.deciding] == ["fish", "swam"]


def test_senses_are_those_of_the_parser():
    for story in islice(stories(5), 300):
        parse = parse_story(story)
        assert parse is not None
        assert tuple(one.sense for one in bank_sentences(story)) == parse.banks
