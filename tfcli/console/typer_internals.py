"""Typer's inside: command groups, what is wrong with a command line, and help that is quick.

What typer does not promise stands here alone. Each thing is asked for: where a typer has it otherwise, help takes
longer or a sentence says less, and every command still works.
"""

import sys
import types
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer

try:
    from typer.core import TyperGroup
except ImportError:  # groups are then loaded at once, and typer draws its own boxes
    TyperGroup = None  # type: ignore[assignment, misc]


class Parameter(NamedTuple):
    """An option or an argument of a command."""

    name: str
    options: list[str]
    metavar: str
    is_argument: bool


class Mistake(NamedTuple):
    """What typer finds wrong with a command line. What it does not tell is empty."""

    message: str
    """Without its full stop; empty of a group without a command, of which help was shown."""
    value: str
    """What is wrong with the value of `parameter`."""
    parameter: Parameter | None
    option: str
    """An option that the command does not have."""
    command: str
    """The command, with `tfcli` and its groups."""
    parameters: list[Parameter]
    """Of the command."""
    given: Mapping[str, Any]
    """Values of the command's parameters, as far as they were read."""
    commands: list[str]
    """Of the command, where it is a group."""
    exit_code: int


def mistake(error: typer.TyperException) -> Mistake:
    """What an error of typer says."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    message, command = getattr(error, "message", ""), getattr(context, "command", None)
    is_value = isinstance(error, typer.BadParameter) and parameter is not None
    return Mistake(
        message=error.format_message().rstrip("."),
        value=message if is_value else "",
        parameter=None if parameter is None else _parameter(parameter),
        option=getattr(error, "option_name", "") if hasattr(error, "possibilities") else "",
        command=getattr(context, "command_path", ""),
        parameters=[_parameter(one) for one in getattr(command, "params", ())],
        given=getattr(context, "params", {}),
        commands=list(getattr(command, "commands", {})),
        exit_code=getattr(error, "exit_code", 2),
    )


def _parameter(found: Any) -> Parameter:
    is_argument = getattr(found, "param_type_name", "") == "argument"
    return Parameter(
        getattr(found, "name", ""), list(getattr(found, "opts", ())), getattr(found, "metavar", "") or "", is_argument
    )


def group(place: str, help_text: str) -> typer.Typer:
    """A group that stands for the Typer app at `place` ("module:name"), or for the commands that are named there
    ("module:one another"), until one of them is needed, so that `tfcli --help` need not know them all."""

    def app() -> typer.Typer:
        module, _, names = place.partition(":")
        found = [getattr(import_module(module), name) for name in names.split()]
        app = found.pop() if isinstance(found[0], typer.Typer) else typer.Typer()
        for one in found:
            app.command()(one)
        return app

    if TyperGroup is None:
        whole = typer.Typer(help=help_text, no_args_is_help=True, add_completion=False)
        whole.registered_commands = app().registered_commands
        return whole

    class Group(TyperGroup):
        _loaded: MutableMapping[str, Any] | None = None

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """By name, in the order in which they were registered."""
            if self._loaded is None:
                self._loaded = typer.main.get_command(app()).commands  # type: ignore[attr-defined]
            return self._loaded

        @commands.setter
        def commands(self, none: Any) -> None:
            """Typer hands in those that it knows of: none yet."""

    return typer.Typer(cls=Group, help=help_text, no_args_is_help=True, add_completion=False)


def leave_out_what_help_never_draws() -> None:
    """Typer loads rich's Markdown and tracebacks, for help texts and errors that ours are not. Loading them would
    take a quarter of the time of `tfcli --help`, after which this process ends."""
    for name in ("Markdown", "Traceback"):
        unused = types.ModuleType(f"rich.{name.lower()}")
        setattr(unused, name, object)
        sys.modules.setdefault(unused.__name__, unused)
