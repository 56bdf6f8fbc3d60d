"""`builtin:stories`: short English stories that a small model can learn, and the judge of what it writes.

    >>> first = next(stories(seed=0))
    >>> is_story(first)
    True

Every story has a hero and a friend, who are called by name and then by the right pronoun, and a thing, a food
or an animal that comes back. More than half have a "bank", of a river or with money in it: a word before it
decides which, and what follows agrees.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from tfcli.corpora.story_grammar import Choice, Grammar, Node, Sequence, Words
from tfcli.corpora.story_plots import PLOTS, RULES
from tfcli.corpora.story_words import FRIENDS, HEROES, MONEY_WORDS, OTHER, PRONOUNS, RIVER_WORDS, SLOTS

FORMAT_VERSION = 2
"""Part of every fingerprint of text from here; raised when the stories change."""

DEFAULT_DOCUMENTS = 20_000
"""How many stories a caller takes who names no number."""

Sense = Literal["river", "money"]

_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True)
class StoryParse:
    """What was recognised in a story: its plot, its people (hero first), what came back, and each "bank"."""

    plot: str
    characters: tuple[str, ...]
    objects: tuple[str, ...]
    banks: tuple[Sense, ...]


def stories(seed: int = 0) -> Iterator[str]:
    """Stories without end; number i depends on `seed` and i alone."""
    return (_story(seed, number) for number in count())


def parse_story(text: str) -> StoryParse | None:
    """What the story tells, or None when the grammar could not have written it, word for word."""
    binding = _bindings_in(text)
    for plot, node in _PLOTS:
        if len(text) + 1 in node.ends(text + " ", 0, binding):
            return StoryParse(
                plot,
                characters=tuple(binding[slot] for slot in ("a", "b") if slot in binding),
                objects=tuple(binding[slot] for slot in ("x", "f", "z") if slot in binding),
                banks=_banks(text),
            )
    return None


def is_story(text: str) -> bool:
    """Whether the grammar could have written this text as one whole story."""
    return parse_story(text) is not None


def _story(seed: int, number: int) -> str:
    rng = random.Random(f"{seed}/{number}")
    gender = rng.choice(("girl", "boy"))
    binding = {slot: rng.choice(words) for slot, words in SLOTS.items()}
    binding |= _person("a", rng.choice(HEROES[gender]), gender)
    binding |= _person("b", rng.choice(FRIENDS[OTHER[gender]]), OTHER[gender])
    return rng.choice(_PLOTS)[1].write(rng, binding).rstrip()


def _bindings_in(text: str) -> dict[str, str]:
    """What the slots hold in this text: the first word of each slot, with the pronouns of the people."""
    binding: dict[str, str] = {}
    genders: dict[str, str] = {}
    for word in _WORD.findall(text):
        slot, gender = _SLOT_OF.get(word, ("", ""))
        if slot and slot not in binding:
            binding |= _person(slot, word, gender) if gender else {slot: word}
            genders[slot] = gender
    if genders.get("a") == genders.get("b"):
        binding.pop("b", None)
    return binding


def _person(slot: str, name: str, gender: str) -> dict[str, str]:
    return {slot: name} | {f"{slot}.{form}": pronoun for form, pronoun in PRONOUNS[gender].items()}


def _banks(text: str) -> tuple[Sense, ...]:
    """The sense of each "bank" that has a deciding word since the "bank" before it."""
    banks: list[Sense] = []
    decided: Sense | None = None
    for word in _WORD.findall(text):
        if word in RIVER_WORDS:
            decided = "river"
        elif word in MONEY_WORDS:
            decided = "money"
        elif word == "bank" and decided:
            banks.append(decided)
            decided = None
    return tuple(banks)


def _plot(lines: str) -> Node:
    """One tree for a plot; each line ends in a space, and an optional line may be missing with its space."""
    parts: list[Node] = []
    for line in lines.strip().replace("\n ", " ").split("\n"):
        node = _GRAMMAR.compile(line.removeprefix("? ") + " ")
        parts.append(Choice((Words(""), node)) if line.startswith("? ") else node)
    return Sequence(tuple(parts))


_GRAMMAR = Grammar(RULES)
_PLOTS = [(name, _plot(lines)) for name, lines in PLOTS.items()]
_SLOT_OF = (
    {word: (slot, "") for slot, words in SLOTS.items() for word in words}
    | {name: ("a", gender) for gender, names in HEROES.items() for name in names}
    | {name: ("b", gender) for gender, names in FRIENDS.items() for name in names}
)
