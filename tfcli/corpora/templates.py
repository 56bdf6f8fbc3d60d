"""Template engine of the built-in corpora: text with alternatives, slots and rules, drawn from a seeded source.

    [red|blue]     one of the alternatives, each as likely as the others; one may be empty, and they nest
    {a}  {a.he}    what is bound to the slot `a`, and a form of it
    <where>        the rule of that name

A template is compiled once to a tree of four kinds of node. The stories are filled templates; pt-en reads the nodes of
a template itself, since its words know what translates them.

    >>> import random
    >>> node = Grammar({"mood": "glad|sad"}).compile("{a} was [very |]<mood>.")
    >>> filled(node, random.Random(0).random, {"a": "Mia"})
    'Mia was sad.'
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, TypeVar

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


class Words(NamedTuple):
    """Fixed text."""

    text: str


class Slot(NamedTuple):
    """The value that is bound to `key`."""

    key: str


class Choice(NamedTuple):
    """One of the options, each as likely as the others."""

    options: "tuple[Node, ...]"


class Series(NamedTuple):
    """All parts, one after the other."""

    parts: "tuple[Node, ...]"


Node = Words | Slot | Choice | Series


def filled(node: Node, chance: Callable[[], float], binding: Mapping[str, str]) -> str:
    """A text that the template can write; `chance` gives numbers in [0, 1)."""
    if isinstance(node, Words):
        return node.text
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
        """The tree of a template.

        Raises:
            ValueError: a bracket has no partner, or a character of the language stands alone.
            KeyError: a rule that does not exist.
        """
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
        return Words(token)


def read_table(name: str) -> dict[str, Any]:
    """The words, rules and patterns of a built-in language, from the data file beside this module."""
    return tomllib.loads(files(__package__).joinpath(name).read_text("utf-8"))


def unwrapped(text: str) -> str:
    """The text of a data file with its folded lines joined: an indented line goes on from the one above."""
    return text.strip().replace("\n ", " ")
