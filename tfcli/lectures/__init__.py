"""The map of five lectures: their ideas, the commands that show each idea, and what one sees.

`lectures.toml` is its only home; docs/lectures.md is made from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tfcli.errors import UsageError
from tfcli.files import packaged


@dataclass(frozen=True)
class Idea:
    """An idea of a lecture, and how to see it.

    Attributes:
        id: A short name, such as B10.
        idea: The idea in one sentence.
        commands: Command lines that show the idea.
        see: What their output shows.
        run: The run that the commands need, or "" if they need none.
    """

    id: str
    idea: str
    commands: Sequence[str]
    see: str
    run: str = ""


@dataclass(frozen=True)
class Lecture:
    """A text and its ideas, with the `convention` of its matrices. Of its slips, each has what `is`, and a `phrase` of
    the sentence by which an explanation names it, where one does."""

    name: str
    title: str
    convention: str
    slips: Sequence[Mapping[str, str]]
    ideas: Sequence[Idea]


@dataclass(frozen=True)
class Lectures:
    """All of them; and by its name the `command` that makes each run, with the `minutes` that it takes on a CPU."""

    lectures: Sequence[Lecture]
    runs: Mapping[str, Mapping[str, str]]

    def named(self, name: str) -> Lecture | Idea:
        """A lecture by its name, or an idea by its id, in any case; a UsageError with those that begin most alike."""
        known: dict[str, Lecture | Idea] = {lecture.name: lecture for lecture in self.lectures}
        known |= {idea.id: idea for lecture in self.lectures for idea in lecture.ideas}
        word, nearest = name.lower(), list[str]()
        for end in range(len(word), 0, -1):
            nearest = nearest or [key for key in known if key.lower().startswith(word[:end])]
        for key in nearest:
            if key.lower() == word:
                return known[key]
        remedy = f"did you mean {' or '.join(nearest)}" if nearest else "see `tfcli lectures`"
        raise UsageError(f"There is no lecture and no idea {name!r}", remedy)


@cache
def lectures() -> Lectures:
    """What `lectures.toml` holds."""
    held = packaged(__file__, "lectures.toml")
    found = [{**one, "ideas": [Idea(**idea) for idea in one["ideas"]]} for one in held["lectures"]]
    return Lectures([Lecture(**one) for one in found], held["runs"])
