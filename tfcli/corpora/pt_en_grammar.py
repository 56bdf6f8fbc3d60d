"""Phrases with a Portuguese and an English side whose words know each other.

Every word carries links; a Portuguese and an English word that share a link are aligned. `join` arranges
phrases in a different order on each side, so an alignment survives any reordering:

    >>> book = word("livro", "book")
    >>> red = word("vermelho", "red")
    >>> text(join("o {book} {red}", "the {red} {book}", book=book, red=red))
    ('o livro vermelho', 'the red book')
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

Combination = tuple[str, str]
"""Two dictionary forms that meet in a sentence, such as ("livro", "vermelho"): what validation holds out."""


class Word(NamedTuple):
    """A word of one side and the links it shares with words of the other."""

    text: str
    links: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Phrase:
    """Both sides of a phrase, with what its neighbours must agree with.

    `person` is 1s, 2s (você), 3s, 1p or 3p; `gender` m or f; `head` the dictionary form of the main word.
    """

    pt: tuple[Word, ...] = ()
    en: tuple[Word, ...] = ()
    head: str = ""
    gender: str = "m"
    person: str = "3s"
    combinations: tuple[Combination, ...] = ()


NOTHING = Phrase()

_CONTRACTIONS = {
    ("de", "o"): "do",
    ("de", "a"): "da",
    ("de", "os"): "dos",
    ("de", "as"): "das",
    ("em", "o"): "no",
    ("em", "a"): "na",
    ("a", "o"): "ao",
    ("a", "a"): "à",
}


def word(pt: str, en: str, *, head: str = "", gender: str = "m", person: str = "3s") -> Phrase:
    """A phrase in which every Portuguese word is linked to every English one ("em cima de" and "on")."""
    links = (object(),)
    return Phrase(
        tuple(Word(text, links) for text in pt.split()),
        tuple(Word(text, links) for text in en.split()),
        head,
        gender,
        person,
    )


def linked(pt: str, en: str) -> Phrase:
    """Words linked by the numbers after them: linked("semana:1 passada:2", "last:2 week:1")."""
    links: dict[str, object] = {}

    def side(text: str) -> tuple[Word, ...]:
        words = []
        for token in text.split():
            spelling, _, label = token.partition(":")
            words.append(Word(spelling, (links.setdefault(label, object()),) if label else ()))
        return tuple(words)

    return Phrase(side(pt), side(en))


def english_only(en: str, like: Phrase) -> Phrase:
    """English words without a Portuguese one, linked to what expresses them there ("did" and "comprou")."""
    links = like.pt[0].links
    return Phrase((), tuple(Word(text, links) for text in en.split()))


def join(pt: str, en: str, *combinations: Combination, head: str = "", **parts: Phrase) -> Phrase:
    """Arrange phrases by one template a side; combinations of the parts and the new ones add up.

    A template is words and {slots} separated by spaces; a comma sticks to the slot before it.
    """
    met = tuple(pair for part in parts.values() for pair in part.combinations)
    return Phrase(
        _fill(pt, {name: part.pt for name, part in parts.items()}),
        _fill(en, {name: part.en for name, part in parts.items()}),
        head,
        combinations=met + combinations,
    )


def contracted(words: Sequence[Word]) -> list[Word]:
    """Melt a preposition and an article that meet into one word with the links of both: de + o = do."""
    melted: list[Word] = []
    for current in words:
        contraction = _CONTRACTIONS.get((melted[-1].text, current.text)) if melted else None
        if contraction:
            melted[-1] = Word(contraction, melted[-1].links + current.links)
        else:
            melted.append(current)
    return melted


def with_indefinite_articles(words: Sequence[Word]) -> list[Word]:
    """English "a" becomes "an" before a vowel."""
    following = [*words[1:], Word("")]
    return [
        Word("an", current.links) if current.text == "a" and after.text[:1] in "aeiou" and after.text else current
        for current, after in zip(words, following, strict=True)
    ]


def text(phrase: Phrase) -> tuple[str, str]:
    """The two sides as plain text, contractions made."""
    pt, en = contracted(phrase.pt), with_indefinite_articles(phrase.en)
    return " ".join(word.text for word in pt), " ".join(word.text for word in en)


def alignment(phrase: Phrase) -> tuple[tuple[int, int], ...]:
    """The pairs (Portuguese word index, English word index) that share a link, sorted."""
    positions: dict[object, list[int]] = {}
    for index, current in enumerate(with_indefinite_articles(phrase.en)):
        for link in current.links:
            positions.setdefault(link, []).append(index)
    found = {
        (source, target)
        for source, current in enumerate(contracted(phrase.pt))
        for link in current.links
        for target in positions.get(link, ())
    }
    return tuple(sorted(found))


def _fill(template: str, parts: dict[str, tuple[Word, ...]]) -> tuple[Word, ...]:
    words: list[Word] = []
    for slot, literal in _tokens(template):
        if slot:
            words.extend(parts[slot])
            if literal:
                words[-1] = Word(words[-1].text + literal, words[-1].links)
        else:
            words.append(Word(literal))
    return tuple(words)


@cache
def _tokens(template: str) -> tuple[tuple[str, str], ...]:
    """Split a template into (slot, what sticks to it) and ("", literal word)."""
    tokens = []
    for token in template.split():
        slot, closing, rest = token.removeprefix("{").partition("}")
        tokens.append((slot, rest) if closing else ("", token))
    return tuple(tokens)
