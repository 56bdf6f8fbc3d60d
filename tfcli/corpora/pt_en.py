"""builtin:pt-en: Portuguese sentences and their English translation, from a grammar with true reordering.

The translation is a function of the source. Validation holds out whole combinations, such as (livro,
vermelho): every word and every pattern is met in training, those two never together.

    >>> next(pairs()).target
    'Hello, how are you?'
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from zlib import crc32

from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import Combination, Phrase, alignment, text
from tfcli.corpora.pt_en_lecture import LECTURE
from tfcli.corpora.pt_en_patterns import CUMULATIVE_WEIGHTS, PATTERNS

FORMAT_VERSION = 2
"""Raised whenever the same seed gives other pairs, so that what was made from the old ones is made again."""

DEFAULT_DOCUMENTS = 60_000
"""How many pairs are taken when no number is asked for."""

HELD_OUT_PER_MILLE = 60
"""Of a thousand combinations, how many are kept for validation; a sentence has one to four of them."""

LECTURE_EVERY = 400
"""The lecture's four pairs begin every block of so many pairs: a model learns nothing that it meets once."""


@dataclass(frozen=True)
class PtEnPair:
    """A sentence, its translation, and which word became which.

    Args:
        source: Portuguese.
        target: English.
        validation: the sentence holds a combination that no training sentence has.
        alignment: pairs (source word index, target word index); words are split at spaces.
    """

    source: str
    target: str
    validation: bool
    alignment: tuple[tuple[int, int], ...]


def pairs(seed: int = 0) -> Iterator[PtEnPair]:
    """Pairs without end, the lecture's four at the head of every block; pair i depends on `seed` and i alone."""
    for index in count():
        place = index % LECTURE_EVERY
        if place < len(LECTURE):
            yield _pair(*LECTURE[place])
        else:
            draw = Draw(f"{seed}/{index}")
            pattern = draw.weighted(PATTERNS, CUMULATIVE_WEIGHTS)
            yield _pair(pattern.make(draw), pattern.end)


def is_held_out(combination: Combination) -> bool:
    """Whether sentences in which these two dictionary forms meet belong to validation."""
    return crc32("|".join(combination).encode()) % 1000 < HELD_OUT_PER_MILLE


def _pair(phrase: Phrase, end: str) -> PtEnPair:
    source, target = text(phrase)
    return PtEnPair(
        source[0].upper() + source[1:] + end,
        target[0].upper() + target[1:] + end,
        any(map(is_held_out, phrase.combinations)),
        alignment(phrase),
    )
