"""The sentences of the stories in which one word alone says which bank is meant, and what counts as a content word."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfcli.corpora.stories import Sense
from tfcli.corpora.story_words import FUNCTION_WORDS, MONEY_WORDS, RIVER_WORDS

_WORD = re.compile(r"[A-Za-z]+")
_SENTENCE_END = re.compile(r'[.!?]"?(?: |$)')


@dataclass(frozen=True)
class BankSentence:
    """A story up to the end of a sentence with "bank".

    Args:
        text: from the beginning of the story.
        sentence: the last one of it.
        words: where each word stands in the text, from and up to.
        bank, deciding: the numbers of those words; the deciding one is the last before "bank" that tells.
        alone: whether the deciding word alone tells. In the lecture's two sentences, "the other bank" and "cash from
            the bank", the words beside "bank" give it away.
        contested: whether a deciding word of the other sense stands before, so that the order counts.
    """

    text: str
    sentence: str
    sense: Sense
    words: tuple[tuple[int, int], ...]
    bank: int
    deciding: int
    alone: bool
    contested: bool

    def word(self, number: int) -> str:
        """A word by its number."""
        start, end = self.words[number]
        return self.text[start:end]

    def content(self) -> list[int]:
        """The numbers of the content words: names, nouns, verbs, adjectives and adverbs."""
        return [number for number in range(len(self.words)) if self.word(number).lower() not in FUNCTION_WORDS]


def bank_sentences(story: str) -> Iterator[BankSentence]:
    """The sentences of a story with a "bank" that a word before it decides.

    >>> [one] = bank_sentences("Tom wanted to see the lost boat, so he ran down the hill to the bank landing.")
    >>> one.sense, one.word(one.deciding), one.alone, one.contested
    ('river', 'boat', True, False)
    """
    if "bank" not in story:
        return
    spans = [match.span() for match in _WORD.finditer(story)]
    words = [story[start:end] for start, end in spans]
    decided: list[int] = []
    for number, word in enumerate(words):
        if word in RIVER_WORDS or word in MONEY_WORDS:
            decided.append(number)
        elif word == "bank" and decided:
            last = decided[-1]
            ends = [match.end() for match in _SENTENCE_END.finditer(story)]
            end = next((at for at in ends if at > spans[number][1]), len(story))
            begin = max((at for at in ends if at <= spans[number][0]), default=0)
            yield BankSentence(
                story[:end].rstrip(),
                story[begin:end].strip(),
                _sense(words[last]),
                tuple(span for span in spans if span[1] <= end),
                number,
                last,
                words[number - 1] != "other" and words[number - 2 : number] != ["from", "the"],
                len({_sense(words[i]) for i in decided}) == 2,
            )


def _sense(word: str) -> Sense:
    return "river" if word in RIVER_WORDS else "money"
