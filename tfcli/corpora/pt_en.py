"""builtin:pt-en: parallel corpus of Portuguese sentences and their English translations, with true reordering.

The translation is a function of the source. Validation holds out whole combinations, such as (livro,
vermelho): every word and every pattern is met in training, those two never together.

    >>> next(pairs()).target
    'Hello, how are you?'

A pattern of `pt_en.toml` is a list of named steps, taken in their order, and what it says:

    one things.small, subject 3s 3p       a function of `pt_en_phrases` and what it is given: names of steps, lists of
                                          words (of one kind; `.!kind`: of all others), numbers, or the word itself
    {who} {no} {am} = {who} {am} {no}     a template for each side, with the results of steps in its slots
    if CONDITION… then X else Y           conditions: a probability, a step that gave something, its kind (verb.back)

A step named `when` that gave a time ends the sentence, or, where the step `first` holds, begins it in Portuguese."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any
from zlib import crc32

from tfcli.corpora import pt_en_phrases as phrases
from tfcli.corpora.stories import Draw

FORMAT_VERSION = 2  # raised whenever the same seed gives other pairs: what was made from the old ones is made again
DEFAULT_DOCUMENTS = 60_000  # how many pairs are taken when no number is asked for
HELD_OUT_PER_MILLE = 60  # of a thousand combinations, how many are kept for validation; a sentence has one to four
LECTURE_EVERY = 400  # the lecture's four pairs begin every block of so many: a model learns nothing that it meets once

Bound = dict[str, Any]
Expression = Callable[[Draw, Bound], Any]


@dataclass(frozen=True)
class PtEnPair:
    """A Portuguese sentence, its English translation, and which word became which."""

    source: str
    target: str
    validation: bool  # whether it holds a combination that no training sentence has
    alignment: tuple[tuple[int, int], ...]  # source word, target word; they are split at spaces


def pairs(seed: int = 0) -> Iterator[PtEnPair]:
    """Pairs without end, the lecture's four at the head of every block; pair i depends on `seed` and i alone."""
    for index in count():
        place = index % LECTURE_EVERY
        if place < len(_LECTURE):
            yield _LECTURE[place]
        else:
            draw = Draw(f"{seed}/{index}")
            pattern = draw.weighted(PATTERNS, _CUMULATIVE_WEIGHTS)
            yield _pair(pattern.make(draw), pattern.end)


def is_held_out(combination: phrases.Combination) -> bool:
    """Whether sentences in which these two dictionary forms meet belong to validation."""
    return crc32("|".join(combination).encode()) % 1000 < HELD_OUT_PER_MILLE


def _pair(phrase: phrases.Phrase, end: str) -> PtEnPair:
    source, target = (side[0].upper() + side[1:] + end for side in phrases.text(phrase))
    return PtEnPair(source, target, any(map(is_held_out, phrase.combinations)), phrases.alignment(phrase))


class Rule:
    """Named steps, taken in their order, and what is said with their results; called, with the draw first, by others.
    `say` is a template, or a step whose result it is; `given` names its arguments, some with a value to fall back on
    (`adjective=0.35`); `meets`, the combinations that it makes (`verb noun, who verb`). `weight` and `end` are a
    sentence's relative frequency and closing mark."""

    def __init__(self, name: str, /, say: str, given: str = "", meets: str = "", **steps: Any) -> None:
        self.name, self.weight, self.end = name, steps.pop("weight", 0), steps.pop("end", ".")
        defaults = (one.partition("=") for one in given.split())
        self._defaults = {name: _value(value or "nothing")(Draw(""), {}) for name, _, value in defaults}
        self._steps = [(step.split("_and_"), _expression(source)) for step, source in steps.items()]
        self._say = _expression(say)
        self._meets = [[_value(name) for name in pair.split()] for pair in meets.split(", ") if pair]

    def __call__(self, draw: Draw, *arguments: Any) -> Any:
        """What it says, its arguments in their order."""
        return self.make(draw, **(self._defaults | dict(zip(self._defaults, arguments, strict=False))))

    def make(self, draw: Draw, /, **bound: Any) -> Any:
        """What it says; a step that is bound beforehand is not taken."""
        for names, expression in self._steps:
            if names[0] not in bound:
                value = expression(draw, bound)
                bound |= {names[0]: value} if len(names) == 1 else zip(names, value, strict=True)
        said = self._say(draw, bound)
        if self._meets:
            heads = [tuple(_head(value(draw, bound)) for value in pair) for pair in self._meets]
            said = said._replace(combinations=(*said.combinations, *filter(all, heads)))
        if not bound.get("when"):
            return said
        order = "{when}, {said}" if bound.get("first") else "{said} {when}"
        return phrases.join(f"{order} = {{said}} {{when}}", said=said, when=bound["when"])


def _expression(source: str) -> Expression:
    """A step, ready to be taken."""
    if source.startswith("if "):
        test, _, chosen = source.removeprefix("if ").partition(" then ")
        then, _, otherwise = chosen.partition(" else ")
        holds = _condition(test)
        if not then:
            return holds
        yes, no = _expression(then), _expression(otherwise or "nothing")
        return lambda draw, bound: yes(draw, bound) if holds(draw, bound) else no(draw, bound)
    if "{" in source or " = " in source:
        return lambda draw, bound: phrases.join(source, **bound)
    name, *arguments = source.split()
    if name not in phrases.STEPS and name not in phrases.RULE_TABLES:
        return _value(name)
    values = [_value(argument) for argument in arguments]
    return lambda draw, bound: _CALLS[name](draw, *[value(draw, bound) for value in values])


def _value(token: str) -> Expression:
    """What a name stands for: the result of a step, words of the lexicon, one's form, a number, or the word itself."""
    name, _, part = token.partition(".")
    if name.isdigit() and part:
        return lambda draw, bound: float(token)
    known = None if token == "nothing" else phrases.LEXICON.get(name, name)
    if part and type(known) is tuple:
        words = tuple(word for word in known if _is(word, part.removeprefix("!")) != part.startswith("!"))
        return lambda draw, bound: words
    if part:
        return lambda draw, bound: getattr(bound.get(name, known), part)
    return lambda draw, bound: bound.get(name, known)


def _condition(test: str) -> Expression:
    """Whether all of the conditions hold; none behind the first that does not is looked at."""
    checks = [_check(check) for check in test.replace("not ", "!").split()]
    return lambda draw, bound: all(check(draw, bound) for check in checks)


def _check(check: str) -> Expression:
    negated, source = check.startswith("!"), check.removeprefix("!")
    name, _, kind = source.partition(".")
    if kind and not name.isdigit():
        return lambda draw, bound: _is(bound[name], kind) != negated
    value = _value(source)

    def holds(draw: Draw, bound: Bound) -> bool:
        found = value(draw, bound)
        return (draw.chance(found) if isinstance(found, float) else bool(found)) != negated

    return holds


def _is(word: Any, kind: str) -> bool:
    if isinstance(word, phrases.Phrase):
        return kind in (word.gender, word.person)
    return kind in (word, getattr(word, "pt", ""), getattr(word, "gender", "")) or kind in getattr(word, "kinds", ())


def _head(word: Any) -> str:
    """The dictionary form of what is named in `meets`; of nothing, none."""
    return word.head if isinstance(word, phrases.Phrase) else str(getattr(word, "pt", word or ""))


@phrases.step
def other(draw: Draw, than: phrases.Phrase) -> Any:
    """Another person than the one given."""
    while (person := _CALLS["anyone"](draw)).head == than.head:
        pass
    return person


_CALLS = phrases.STEPS | {name: Rule(name, **table) for name, table in phrases.RULE_TABLES.items()}
PATTERNS = tuple(Rule(name, **table) for name, table in phrases.PATTERN_TABLES.items())
_BY_NAME = {pattern.name: pattern for pattern in PATTERNS}
_CUMULATIVE_WEIGHTS = tuple(accumulate(pattern.weight for pattern in PATTERNS))


def phrase_of(name: str, /, **bound: Any) -> phrases.Phrase:
    """A sentence of a pattern in which everything that is drawn is given."""
    return _BY_NAME[name].make(Draw(""), **bound)


_FIRST = {one.pt: one for room in ("things", "cities", "near") for one in phrases.LEXICON[room]}
_BOOK, _TABLE = phrases.noun_phrase(_FIRST["livro"], phrases.THE), phrases.noun_phrase(_FIRST["mesa"], phrases.THE)
_LUCAS, _LAST_MONTH = phrases.word("Lucas", "Lucas", None, "Lucas"), phrases.LEXICON["months"][-1]
_TO_RIO = {"who": _LUCAS, "place": _FIRST["Rio"], "when": _LAST_MONTH}
_SENTENCES: tuple[tuple[str, Bound], ...] = (
    ("greets", {"hello": phrases.LEXICON["hello"][0], "asked": True, "name": None, "relative": None}),
    ("is_located", {"noun": None, "what": _BOOK, "relation": _FIRST["em cima de"], "landmark": _TABLE, "no": None}),
    ("travels", {**_TO_RIO, "first": False}),
    ("travels", {**_TO_RIO, "first": True}),
)
# The four pairs of the lecture, built by the same patterns as all the others.
_LECTURE = tuple(_pair(phrase_of(name, **bound), _BY_NAME[name].end) for name, bound in _SENTENCES)
