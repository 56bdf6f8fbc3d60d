"""The glossary: every row leads to a name that is there, and every term is said where people search."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer

import tfcli
from tests.docs.pages import DOCS
from tests.support.app import app
from tfcli.recipe.recipe import known_keys

PACKAGE = Path(tfcli.__file__).parent
ROWS = re.findall(
    r"^\| ([^|]+) \| `([^`]+)` · `(\w+)` \| `([^`]+)` \|$", (DOCS / "glossary.md").read_text("utf-8"), re.M
)


@cache
def docstrings() -> str:
    """Those of modules and of public classes and functions, in small letters on one line."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module) or (
                isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            ):
                found.append(ast.get_docstring(node) or "")
    return " ".join(" ".join(found).lower().split())


def test_the_glossary_has_ninety_terms() -> None:
    assert len({term for term, *_ in ROWS}) >= 90


@pytest.mark.parametrize(("term", "file", "name", "shown"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_leads_somewhere(term: str, file: str, name: str, shown: str) -> None:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert name in there, f"{file} has no {name}"
    assert re.search(rf"\b{re.escape(term.lower())}", docstrings()), f"no docstring says {term!r}"
    if "." in shown:
        assert shown in known_keys()
        return
    words, command = shown.split(), typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    options = {spelling for parameter in command.params for spelling in parameter.opts}
    assert all(word in options for word in words if word.startswith("--")), shown
