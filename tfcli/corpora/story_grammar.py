"""A small template language: one description that both writes text and recognises it.

    [red|blue]     one of the alternatives; an alternative may be empty and may nest
    {a}  {a.he}    what the slot `a` is bound to in this story, and a form of it
    <where>        the rule of that name

A template is compiled once to a tree of four kinds of node. `write` walks the tree and chooses; `ends` walks
the same tree over a given text and returns every place where the node can stop.

    >>> import random
    >>> node = Grammar({"mood": "glad|sad"}).compile("{a} was [very |]<mood>.")
    >>> node.write(random.Random(0), {"a": "Mia"})
    'Mia was sad.'
    >>> node.ends("Mia was very glad.", 0, {"a": "Mia"})
    {18}
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

Binding = Mapping[str, str]

_TOKEN = re.compile(r"[\[\]|]|\{[\w.]+\}|<\w+>|[^\[\]|{}<>]+")


@dataclass(frozen=True)
class Words:
    """Fixed text."""

    text: str

    def write(self, rng: random.Random, binding: Binding) -> str:
        return self.text

    def ends(self, text: str, start: int, binding: Binding) -> set[int]:
        return {start + len(self.text)} if text.startswith(self.text, start) else set()


@dataclass(frozen=True)
class Slot:
    """The value that a story has bound to `key`; an unbound slot matches nothing."""

    key: str

    def write(self, rng: random.Random, binding: Binding) -> str:
        return binding[self.key]

    def ends(self, text: str, start: int, binding: Binding) -> set[int]:
        value = binding.get(self.key)
        return {start + len(value)} if value is not None and text.startswith(value, start) else set()


@dataclass(frozen=True)
class Choice:
    """One of the options, each as likely as the others."""

    options: tuple["Node", ...]

    def write(self, rng: random.Random, binding: Binding) -> str:
        return self.options[int(rng.random() * len(self.options))].write(rng, binding)

    def ends(self, text: str, start: int, binding: Binding) -> set[int]:
        return {end for option in self.options for end in option.ends(text, start, binding)}


@dataclass(frozen=True)
class Sequence:
    """All parts, one after the other."""

    parts: tuple["Node", ...]

    def write(self, rng: random.Random, binding: Binding) -> str:
        return "".join([part.write(rng, binding) for part in self.parts])

    def ends(self, text: str, start: int, binding: Binding) -> set[int]:
        places = {start}
        for part in self.parts:
            places = {end for place in places for end in part.ends(text, place, binding)}
            if not places:
                break
        return places


Node = Words | Slot | Choice | Sequence


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
        nodes = tuple(_join(parts) for parts in options)
        return nodes[0] if len(nodes) == 1 else Choice(nodes)

    def _part(self, token: str, tokens: list[str]) -> Node:
        if token == "[":
            return self._alternatives(tokens)
        if token.startswith("{"):
            return Slot(token[1:-1])
        if token.startswith("<"):
            return self._rule(token[1:-1])
        return Words(token)

    def _rule(self, name: str) -> Node:
        if name not in self._compiled:
            self._compiled[name] = self.compile(self._rules[name])
        return self._compiled[name]


def _join(parts: list[Node]) -> Node:
    if not parts:
        return Words("")
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
