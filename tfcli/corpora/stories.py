"""The built-in stories, and the template engine that writes them.

    [red|blue]     one of the alternatives, each as likely as the others; one may be empty, and they nest
    {a}  {a.he}    what is bound to the slot `a`, and a form of it
    <where>        the rule of that name

A template is compiled once to a tree, whose leaves are texts and slots.

    >>> import random
    >>> node = Grammar({"mood": "glad|sad"}).compile("{a} was [very |]<mood>.")
    >>> filled(node, random.Random(0).random, {"a": "Mia"})
    'Mia was sad.'

    >>> next(stories(seed=0)).startswith("One")
    True

Every story has a hero and a friend, who are called by name and then by the right pronoun, and a thing, a food
or an animal that comes back; one plot tells its own and has no hero. More than half have a "bank", of a river or with
money in it: a word before it decides which, and what follows agrees. Words, rules and plots stand in `stories.toml`."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random
from typing import Literal, NamedTuple, TypeVar

from tfcli.files import packaged

T = TypeVar("T")
_TOKEN = re.compile(r"[\[\]|]|\{[\w.]+\}|<\w+>|[^\[\]|{}<>]+")


class Draw:
    """Seeded choices: two draws from the same key choose the same on every platform and Python version."""

    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def one(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random() * len(options))]

    def weighted(self, options: Sequence[T], cumulative_weights: Sequence[float]) -> T:
        """One of the options; `cumulative_weights` rise to the total."""
        return options[bisect_right(cumulative_weights, self._random() * cumulative_weights[-1])]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability


class Slot(NamedTuple):
    """The value that is bound to `key`."""

    key: str


class Choice(NamedTuple):
    """One of the options, each as likely as the others."""

    options: "tuple[Node, ...]"


class Series(NamedTuple):
    """All parts, one after the other."""

    parts: "tuple[Node, ...]"


Node = str | Slot | Choice | Series


def filled(node: Node, chance: Callable[[], float], binding: Mapping[str, str]) -> str:
    """A text that the template can write; `chance` gives numbers in [0, 1)."""
    if isinstance(node, str):
        return node
    if isinstance(node, Slot):
        return binding[node.key]
    if isinstance(node, Choice):
        return filled(node.options[int(chance() * len(node.options))], chance, binding)
    return "".join([filled(part, chance, binding) for part in node.parts])


class Grammar:
    """Named rules that templates may use, each compiled once, when it is first asked for."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._rules = rules
        self._compiled: dict[str, Node] = {}

    def compile(self, template: str) -> Node:
        """The tree of a template; ValueError of a bracket or sign that stands alone, KeyError of a rule unknown."""
        tokens = _TOKEN.findall(template)
        depths = list(accumulate((token == "[") - (token == "]") for token in tokens))
        if "".join(tokens) != template or min(depths, default=0) < 0 or depths[-1:] > [0]:
            raise ValueError(f"not a template: {template!r}")
        tokens.reverse()
        return self._alternatives(tokens)

    def _alternatives(self, tokens: list[str]) -> Node:
        """Reads up to the closing bracket or the end; `tokens` is a stack with the next token on top."""
        options: list[list[Node]] = [[]]
        while tokens and (token := tokens.pop()) != "]":
            if token == "|":
                options.append([])
            else:
                options[-1].append(self._part(token, tokens))
        nodes = tuple(parts[0] if len(parts) == 1 else Series(tuple(parts)) for parts in options)
        return nodes[0] if len(nodes) == 1 else Choice(nodes)

    def _part(self, token: str, tokens: list[str]) -> Node:
        if token == "[":
            return self._alternatives(tokens)
        if token.startswith("{"):
            return Slot(token[1:-1])
        if token.startswith("<"):
            name = token[1:-1]
            if name not in self._compiled:
                self._compiled[name] = self.compile(self._rules[name])
            return self._compiled[name]
        return token


def unwrapped(text: str) -> str:
    """The text of a data file with its folded lines joined: an indented line goes on from the one above."""
    return text.strip().replace("\n ", " ")


FORMAT_VERSION = 4  # part of every fingerprint of text from here; raised when the stories change
DEFAULT_DOCUMENTS = 20_000  # how many stories a caller takes who names no number
Sense = Literal["river", "money"]
_TABLE = packaged(__file__, "stories.toml")
HEROES, FRIENDS, SLOTS, _SENSES, _KINDS = (
    {name: tuple(words.split()) for name, words in _TABLE[room].items()}
    for room in ("heroes", "friends", "slots", "senses", "kinds")
)
PRONOUNS: dict[str, dict[str, str]] = _TABLE["pronouns"]
RULES = {name: unwrapped(rule) for name, rule in _TABLE["rules"].items()}
PLOTS = {name: unwrapped(lines) for name, lines in _TABLE["plots"].items()}
SENSES: dict[str, Sense] = {word: sense for sense, words in _SENSES.items() for word in words}
"""The sense of "bank" that a word before it decides; the last one counts."""

_FUNCTION_WORDS = frozenset(_KINDS["function"])
_OTHER = {"girl": "boy", "boy": "girl"}
_WORD = re.compile(r"[A-Za-z]+")
_SENTENCE_END = re.compile(r'[.!?]"?(?: |$)')
_NAME = "|".join(name for people in (HEROES, FRIENDS) for names in people.values() for name in names)
_VERB = "|".join(_KINDS["verbs"])
_SAID = "|".join(f"(?<={verb} )" for verb in _KINDS["speech"])
TOLD_BY = {
    "who acts": re.compile(
        rf"\b(?:{_NAME}|[Hh]e|[Ss]he|[Tt]hey|I)(?=(?: and (?:{_NAME}))? (?:{_VERB})\b)|(?:{_SAID})(?:{_NAME})"
    ),
    "verb": re.compile(rf"(?<!the )\b(?:{_VERB})\b"),
    "where": re.compile(r"\b(?:[Bb]ehind|[Bb]eside|[Nn]ear|[Bb]y|across|along|down|over|under|in|on|into)\b"),
    "thing": re.compile(rf"\b(?:{'|'.join((*SLOTS['x'], *SLOTS['f'], *SLOTS['z']))})\b"),
}
"""Which words say what: who acts is a name or a pronoun with its verb behind it, or a name behind "said"; the verbs are
those of the narration ("the lost boat" has none)."""


def stories(seed: int = 0) -> Iterator[str]:
    """Stories without end; number i depends on `seed` and i alone."""
    return (_story(seed, number) for number in count())


def person(slot: str, name: str, gender: str) -> dict[str, str]:
    """What a person binds: the slot to the name, and `slot.he` and the other forms to the pronouns."""
    return {slot: name} | {f"{slot}.{form}": pronoun for form, pronoun in PRONOUNS[gender].items()}


def _story(seed: int, number: int) -> str:
    rng = Random(f"{seed}/{number}")
    gender = rng.choice(("girl", "boy"))
    binding = {slot: rng.choice(words) for slot, words in SLOTS.items()}
    binding |= person("a", rng.choice(HEROES[gender]), gender)
    binding |= person("b", rng.choice(FRIENDS[_OTHER[gender]]), _OTHER[gender])
    return filled(rng.choice(_PLOTS), rng.random, binding).rstrip()


def plot_template(lines: str) -> Node:
    """One tree for a plot; each line ends in a space, and a line that begins with `? ` may be missing with it."""
    spaced = [f"[|{line[2:]} ]" if line.startswith("? ") else f"{line} " for line in lines.split("\n")]
    return _GRAMMAR.compile("".join(spaced))


_GRAMMAR = Grammar(RULES)
_PLOTS = [plot_template(lines) for lines in PLOTS.values()]


@dataclass(frozen=True)
class BankSentence:
    """A story up to the end of a sentence with "bank"."""

    text: str
    sentence: str  # the last one of the text
    sense: Sense
    words: tuple[tuple[int, int], ...]  # where each stands in the text, from and up to
    bank: int  # the number of the word
    deciding: tuple[int, ...]  # the last word that tells, behind those of the same sense in its sentence
    contested: bool  # whether a deciding word of the other sense stands before, so that the order counts

    def word(self, number: int) -> str:
        """A word by its number."""
        start, end = self.words[number]
        return self.text[start:end]

    def content(self) -> list[int]:
        """The numbers of the content words: names, nouns, verbs, adjectives and adverbs."""
        return [number for number in range(len(self.words)) if self.word(number).lower() not in _FUNCTION_WORDS]


def bank_sentences(story: str) -> Iterator[BankSentence]:
    """The sentences of a story with a "bank" that a word before it decides.

    >>> [one] = bank_sentences("Tom wanted to get the lost cash. He rowed across the river to get to the other bank.")
    >>> one.sense, [one.word(number) for number in one.deciding], one.contested
    ('river', ['rowed', 'river'], True)
    """
    if "bank" not in story:
        return
    spans = [match.span() for match in _WORD.finditer(story)]
    words = [story[start:end] for start, end in spans]
    decided: list[int] = []
    for number, word in enumerate(words):
        if word in SENSES:
            decided.append(number)
        elif word == "bank" and decided:
            ends = [match.end() for match in _SENTENCE_END.finditer(story)]
            end = next((at for at in ends if at > spans[number][1]), len(story))
            begin = max((at for at in ends if at <= spans[number][0]), default=0)
            sense, last = SENSES[words[decided[-1]]], max((at for at in ends if at <= spans[decided[-1]][0]), default=0)
            text, sentence = story[:end].rstrip(), story[begin:end].strip()
            read = tuple(span for span in spans if span[1] <= end)
            deciding = tuple(i for i in decided if spans[i][0] >= last and SENSES[words[i]] == sense)
            contested = len({SENSES[words[i]] for i in decided}) == 2
            yield BankSentence(text, sentence, sense, read, number, deciding=deciding, contested=contested)
