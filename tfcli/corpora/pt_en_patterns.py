"""The sentence patterns of builtin:pt-en and how often each comes up."""

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from tfcli.corpora import pt_en_actions as actions
from tfcli.corpora import pt_en_clauses as clauses
from tfcli.corpora import pt_en_questions as questions
from tfcli.corpora import pt_en_states as states
from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import Phrase


class Pattern(NamedTuple):
    """One way to build a sentence; `weight` is its relative frequency, `end` its closing mark."""

    make: Callable[[Draw], Phrase]
    weight: float
    end: str = "."

    @property
    def name(self) -> str:
        return self.make.__name__


# Patterns with more sentences weigh more, the smallest (greetings, ages) least.
PATTERNS = (
    Pattern(actions.did_something, 13),
    Pattern(actions.did_not, 6),
    Pattern(actions.is_doing, 5),
    Pattern(actions.is_going_to, 5),
    Pattern(actions.wants, 5),
    Pattern(actions.does_not_want, 3),
    Pattern(actions.habit, 4),
    Pattern(actions.likes, 4),
    Pattern(actions.likes_doing, 2),
    Pattern(actions.has, 5),
    Pattern(actions.gave, 5),
    Pattern(actions.met, 6),
    Pattern(actions.travels, 3),
    Pattern(actions.went, 5),
    Pattern(clauses.when_arrived, 3),
    Pattern(clauses.happy_because, 3),
    Pattern(clauses.ate_because, 2),
    Pattern(clauses.that_was_bought, 4),
    Pattern(states.greets, 2, "?"),
    Pattern(states.is_located, 5),
    Pattern(states.is_somewhere, 3),
    Pattern(states.there_is, 5),
    Pattern(states.feels, 6),
    Pattern(states.is_like, 5),
    Pattern(states.thing_is, 7),
    Pattern(states.compares_things, 5),
    Pattern(states.compares_people, 3),
    Pattern(states.age, 2),
    Pattern(states.dwells, 5),
    Pattern(questions.where_is, 3, "?"),
    Pattern(questions.how_many_are, 2, "?"),
    Pattern(questions.how_many_bought, 2, "?"),
    Pattern(questions.did_buy, 3, "?"),
    Pattern(questions.is_reading, 2, "?"),
    Pattern(questions.who_bought, 2, "?"),
    Pattern(questions.what_bought, 2, "?"),
    Pattern(questions.when_travels, 2, "?"),
    Pattern(questions.why_is, 2, "?"),
    Pattern(questions.how_much, 2, "?"),
)

CUMULATIVE_WEIGHTS = tuple(accumulate(pattern.weight for pattern in PATTERNS))
