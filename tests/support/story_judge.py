"""Which texts the grammar of builtin:stories could have written: a recogniser over the same templates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfcli.corpora.stories import (
    FRIENDS,
    HEROES,
    PLOTS,
    SENSES,
    SLOTS,
    Choice,
    Node,
    Sense,
    Slot,
    person,
    plot_template,
)

_WORD = re.compile(r"[A-Za-z]+")
_PLOTS = {name: plot_template(lines) for name, lines in PLOTS.items()}
_SLOT_OF = (
    {word: (slot, "") for slot, words in SLOTS.items() for word in words}
    | {name: ("a", gender) for gender, names in HEROES.items() for name in names}
    | {name: ("b", gender) for gender, names in FRIENDS.items() for name in names}
)


@dataclass(frozen=True)
class StoryParse:
    """What was recognised in a story: its plot, its people (hero first), what came back, and each "bank"."""

    plot: str
    characters: tuple[str, ...]
    objects: tuple[str, ...]
    banks: tuple[Sense, ...]


def ends(node: Node, text: str, start: int, binding: Mapping[str, str]) -> set[int]:
    """Every place where the template can stop that begins at `start`; an unbound slot matches nothing.

    >>> from tfcli.corpora.stories import Grammar
    >>> ends(Grammar({"mood": "glad|sad"}).compile("{a} was [very |]<mood>."), "Mia was very glad.", 0, {"a": "Mia"})
    {18}
    """
    if isinstance(node, str | Slot):
        value = node if isinstance(node, str) else binding.get(node.key)
        return {start + len(value)} if value is not None and text.startswith(value, start) else set()
    if isinstance(node, Choice):
        return {end for option in node.options for end in ends(option, text, start, binding)}
    places = {start}
    for part in node.parts:
        places = {end for place in places for end in ends(part, text, place, binding)}
        if not places:
            break
    return places


def parse_story(text: str) -> StoryParse | None:
    """What the story tells, or None when the grammar could not have written it, word for word."""
    binding = _bindings_in(text)
    for plot, node in _PLOTS.items():
        if len(text) + 1 in ends(node, text + " ", 0, binding):
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


def _bindings_in(text: str) -> dict[str, str]:
    """What the slots hold in this text: the first word of each slot, with the pronouns of the people."""
    binding: dict[str, str] = {}
    genders: dict[str, str] = {}
    for word in _WORD.findall(text):
        slot, gender = _SLOT_OF.get(word, ("", ""))
        if slot and slot not in binding:
            binding |= person(slot, word, gender) if gender else {slot: word}
            genders[slot] = gender
    if genders.get("a") == genders.get("b"):
        binding.pop("b", None)
    return binding


def _banks(text: str) -> tuple[Sense, ...]:
    """The sense of each "bank" that has a deciding word since the "bank" before it."""
    banks: list[Sense] = []
    decided: Sense | None = None
    for word in _WORD.findall(text):
        if word in SENSES:
            decided = SENSES[word]
        elif word == "bank" and decided:
            banks.append(decided)
            decided = None
    return tuple(banks)
