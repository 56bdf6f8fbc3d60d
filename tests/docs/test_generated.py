"""The generated pages are what the code says now, and nothing is left out of them."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.docs.generate import DOCS, PAGES, made_with_typer
from tests.support.app import app
from tfcli.recipe.keys import field_docstrings
from tfcli.recipe.recipe import SECTIONS

HOW = "run `python -m tests.docs.generate` and commit what it writes"


def all_commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name, without `tfcli`; groups included."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        for inner, subcommand in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", subcommand
            yield from walk(f"{name} {inner}", subcommand)

    return walk("tfcli", typer.main.get_command(app))


def documented() -> dict[str, str]:
    """What docs/cli.md says of each command."""
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^##+ `(.+?)`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_current(page: Path) -> None:
    there = page.read_text(encoding="utf-8")
    if page.name == "cli.md" and not there.startswith(made_with_typer()):
        pytest.skip(f"{there.splitlines()[0]} wrote the page, and another typer may lay it out otherwise")
    assert there == PAGES[page](), f"docs/{page.name} is not what the code says now: {HOW}"


def test_every_command_and_every_option_is_documented() -> None:
    pages = documented()
    for name, command in all_commands():
        assert name in pages, f"docs/cli.md does not have {name}: {HOW}"
        assert command.help, f"{name} has no help"
        for parameter in command.params:
            if getattr(parameter, "hidden", False):  # an old spelling, which says the new one
                continue
            is_option = parameter.param_type_name == "option"
            spelling = parameter.opts[0] if is_option else parameter.metavar
            assert spelling in pages[name], f"docs/cli.md does not have {name} {spelling}: {HOW}"
            assert parameter.help or not is_option, f"{name} {spelling} has no help"


def test_no_command_is_documented_that_is_not_there() -> None:
    assert set(documented()) == {name for name, _ in all_commands()}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_recipe_key_has_a_docstring(section: str) -> None:
    kind = SECTIONS[section]
    assert {field.name for field in fields(kind)} == set(field_docstrings(kind))
