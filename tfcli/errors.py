"""Errors a user can cause: one plain sentence that says what is wrong and what to do about it.

    raise UsageError("There is no file 'storis.txt'", "check the path, or use builtin:stories")

prints ``There is no file 'storis.txt'; check the path, or use builtin:stories.`` and exits with code 2.
"""

import re
from collections.abc import Collection

_QUOTED = 80
# A path may be long, and a list of choices too.
_LONGEST_WORD = 300
_LONGEST_MESSAGE = 1_500


class TfcliError(Exception):
    """Something failed while working: a file turned out broken, a disk filled, a loss diverged. `problem` says what is
    wrong, where, with the value received, and begins with a capital; `remedy` what to do. Neither has a full stop."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}." if remedy else f"{problem}.")


class Remark(UserWarning):
    """What a command says beside its result, on stderr, of a choice that was made deep inside."""


class UsageError(TfcliError):
    """Wrong before any work began: the command line, the recipe, a missing path, a taken output folder."""

    exit_code = 2


class Misnamed(UsageError):  # noqa: N818 (a UsageError)
    """The name of something else than is wanted: what was `given`, and what to write `instead`."""

    def __init__(self, problem: str, remedy: str, given: str, instead: str) -> None:
        super().__init__(problem, remedy)
        self.given, self.instead = given, instead


class BrokenInputError(TfcliError):
    """A file or a record that was there turned out unusable while it was being read."""


class Interrupted(TfcliError):  # noqa: N818 (no error)
    """Work was stopped by Ctrl-C (exit 130), SIGTERM (143) or a closed terminal (129) after everything was saved."""

    def __init__(self, problem: str, remedy: str = "", *, exit_code: int = 130) -> None:
        super().__init__(problem, remedy)
        self.exit_code = exit_code


def shortened(text: str) -> str:
    """As much of a text of the user's as a sentence can quote."""
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"


def json_fault(error: Exception) -> str:
    """What Python says against a JSON text, without its advice to programmers."""
    return "a number has thousands of digits" if "integer string conversion" in str(error) else str(error)


def readable(sentence: str) -> str:
    """A message that can be read: of a very long word, and of a very long message, the beginning and the end."""
    words = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word[0], _LONGEST_WORD), sentence)
    return _without_middle(words, _LONGEST_MESSAGE)


def _without_middle(text: str, longest: int) -> str:
    """At most so many characters, two thirds of them from the beginning."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def near(typed: str, known: Collection[str]) -> list[str]:
    """Those that may have been meant, by spelling alone: the one that begins so, else the nearest, with a slip in four
    letters at most, plural or not. What is spelled otherwise means something else."""
    word, *spellings = (re.sub("(ie|y)?s?$", "", name.lower().replace("_", "-")) for name in (typed, *known))
    plain = dict(zip(known, spellings, strict=True))
    if len(begun := [name for name, spelled in plain.items() if len(word) > 2 and spelled.startswith(word)]) == 1:
        return begun
    slips = {
        name: _slips(word, spelled)
        for name, spelled in plain.items()
        if abs(len(spelled) - len(word)) <= len(word) // 4 < _QUOTED and spelled[:1] in word[:2]
    }
    fewest = min(slips.values(), default=len(word))
    return [name for name, number in slips.items() if number == fewest <= len(word) // 4]


def _slips(typed: str, name: str) -> int:
    """Letters left out, added, changed, or exchanged with their neighbour (Damerau 1964)."""
    rows = [list(range(len(name) + 1))]
    for i, letter in enumerate(typed):
        rows.append([i + 1])
        for j, other in enumerate(name):
            least = min(rows[i][j + 1] + 1, rows[i + 1][j] + 1, rows[i][j] + (letter != other))
            if i and j and (letter, typed[i - 1]) == (name[j - 1], other):
                least = min(least, rows[i - 1][j - 1] + 1)
            rows[i + 1].append(least)
    return rows[-1][-1]


def first_lines(error: Exception) -> str:
    """At most two lines of a library's message, in one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]).rstrip(".") or type(error).__name__
