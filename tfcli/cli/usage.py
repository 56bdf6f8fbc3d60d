"""A command line that cannot be read: one plain sentence, and exit code 2."""

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from tfcli.cli.terminal import Terminal
from tfcli.errors import shortened


class Commands(TyperGroup):
    """The root of all commands. What typer finds wrong ends in a sentence, where typer would draw a box."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run a command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, *others, **{**settings, "standalone_mode": False})
        except typer.Abort:
            Terminal().error("Stopped.")
            code = 1
        except typer.TyperException as error:
            if problem := error.format_message():  # of a group without a command it is empty: help was shown
                problem, remedy = _problem_and_remedy(error, problem, words)
                problem = _cut(problem, words)
                Terminal().error(f"{problem}; {remedy or f'see `{self._command(words)} --help`'}.")
            code = error.exit_code
        raise SystemExit(code)

    def _command(self, words: Sequence[str]) -> str:
        """The command that is meant, as far as it is known."""
        path, group = ["tfcli"], self
        for word in words:
            found = getattr(group, "commands", {}).get(word)
            if found is None:
                break
            path.append(word)
            group = found
        return " ".join(path)


def _problem_and_remedy(error: typer.TyperException, problem: str, words: Sequence[str]) -> tuple[str, str]:
    """Both without their full stop; the remedy is empty where there is no near guess."""
    parameter = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and parameter is not None and error.message:
        return _bad_value(error.message, parameter, words), ""
    if nearest := getattr(error, "possibilities", None):
        return error.message, f"did you mean {nearest[0]}"
    problem, _, guess = problem.partition(" Did you mean ")
    return problem.rstrip("."), f"did you mean {guess.rstrip('?')}" if guess else ""


def _bad_value(message: str, parameter: Any, words: Sequence[str]) -> str:
    """The option, the value, and what was expected of it: "--beam 'two' should be a valid integer"."""
    expected = message.removeprefix("Value error, ").partition(", unable to")[0].rstrip(".")
    name = parameter.opts[0]
    if not name.startswith("-"):  # an argument, which help calls by what is wanted
        return f"{parameter.metavar or name} {expected}"
    value = _value(parameter.opts, words)
    if value is None or expected.startswith(repr(value)):
        return f"{name} {expected}"
    return f"{name} {value!r} {expected.removeprefix('Input ')}"


def _value(options: Sequence[str], words: Sequence[str]) -> str | None:
    """The last value that an option was given."""
    for place in reversed(range(len(words))):
        name, equals, value = words[place].partition("=")
        if name in options and (equals or place + 1 < len(words)):
            return value if equals else words[place + 1]
    return None


def _cut(problem: str, words: Sequence[str]) -> str:
    """The sentence with no more of a word of the command line than a sentence can quote."""
    for word in words:
        for value in (word, word.partition("=")[2]):
            for spelled in (value, repr(value)[1:-1]):
                if shortened(spelled) != spelled:
                    problem = problem.replace(spelled, shortened(spelled))
    return problem
