"""Groups of commands that are loaded when one of them is asked for, so that `tfcli --help` need not know them all."""

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def group(place: str, help_text: str) -> typer.Typer:
    """A group that stands for the Typer app at `place` ("module:name") until a command of it is needed."""

    class Group(TyperGroup):
        _loaded: MutableMapping[str, Any] | None = None

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """By name, in the order in which they were registered."""
            if self._loaded is None:
                module, _, name = place.partition(":")
                app = getattr(import_module(module), name)
                self._loaded = typer.main.get_group(app).commands
            return self._loaded

        @commands.setter
        def commands(self, none: Any) -> None:
            """Typer hands in those that it knows of: none yet."""

    return typer.Typer(cls=Group, help=help_text, no_args_is_help=True, add_completion=False)
