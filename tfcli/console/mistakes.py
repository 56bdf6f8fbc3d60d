"""What typer finds wrong with a command line, without typer's own classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer


class Parameter:
    """An option or an argument of a command."""

    def __init__(self, found: Any) -> None:
        self.name: str = getattr(found, "name", "")
        self.options: list[str] = list(getattr(found, "opts", ()))
        self.metavar: str = getattr(found, "metavar", "") or ""
        self.is_argument: bool = getattr(found, "param_type_name", "") == "argument"
        self.is_flag: bool = getattr(found, "is_flag", False)


class Mistake:
    """What typer finds wrong with a command line; what it does not tell is empty. The message has no full stop, and is
    empty where help was shown; `value` is what is wrong with that of `parameter`, `option` one that is not there. The
    `command` has `tfcli` and its groups before it, `given` is what was read, and `commands` are those of a group."""

    def __init__(self, error: typer.TyperException) -> None:
        context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
        message, command = getattr(error, "message", ""), getattr(context, "command", None)
        self.message = error.format_message().rstrip(".")
        self.value: str = message if isinstance(error, typer.BadParameter) and parameter is not None else ""
        self.parameter = None if parameter is None else Parameter(parameter)
        self.option: str = getattr(error, "option_name", "") if hasattr(error, "possibilities") else ""
        self.command: str = getattr(context, "command_path", "")
        self.parameters = [Parameter(one) for one in getattr(command, "params", ())]
        self.given: Mapping[str, Any] = getattr(context, "params", {})
        self.commands = list(getattr(command, "commands", {}))
        self.exit_code: int = getattr(error, "exit_code", 2)


def bad_value(message: str, parameter: Parameter, words: Sequence[str]) -> str:
    """The option, the value, and what was expected of it: "--beam 'two' should be a valid integer"."""
    expected = message.removeprefix("Value error, ").partition(", unable to")[0].rstrip(".")
    name = next(iter(parameter.options), parameter.name)
    if not name.startswith("-"):  # an argument, which help calls by what is wanted
        return f"{parameter.metavar or name} {expected}"
    value = _value(parameter.options, words)
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
