"""Writes the pages of docs/ that are made from the code: `python -m tests.docs.generate`."""

import ast
import html
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen

from tfcli.recipe.recipe import SECTIONS, Recipe

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}

_RECIPES_INTRO = """\
# Recipe keys

Every key of a recipe, generated from `tfcli/recipe/`. A recipe names only what differs from the defaults:

```toml
name = "short-stories"

[data]
source = "builtin:stories"

[model]
d_model = 64
norm = "layernorm"

[train]
steps = 500
```

A key is set on the command line as `--set model.norm=layernorm`; the value is TOML, and a bare word is a
string. Lists want quotes from the shell: `--set 'data.columns=["pt", "en"]'`. Everyday keys have an option
(`tfcli train --help`). Precedence: option and `--set`, which may not contradict each other > recipe > size >
preset > default. An unknown key is refused, and the nearest known one named.

A default of – means that the key is left out; its meaning says what then holds. A run's own `recipe.toml` has
every setting written out.
"""


def recipes_page() -> str:
    """docs/recipes.md, from the recipe's dataclasses and the docstrings under their fields."""
    top = [field for field in fields(Recipe) if field.name not in SECTIONS]
    parts = [_RECIPES_INTRO, "## Top level\n\n" + _table(Recipe, top)]
    for name, section in SECTIONS.items():
        about = inspect.cleandoc(section.__doc__ or "")
        parts.append(f"## `[{name}]`\n\n{about}\n\n" + _table(section, list(fields(section))))
    return "\n".join(parts)


def cli_page() -> str:
    """docs/cli.md, by typer's own generator. Its first line names the version, for layouts differ."""
    words = ["typer", "tfcli.cli.main", "utils", "docs", "--name", "tfcli", "--title", "Commands"]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    lines = [made_with_typer(), "", *map(_readable, done.stdout.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def made_with_typer() -> str:
    """The first line of docs/cli.md."""
    return f"<!-- typer {version('typer')} -->"


def field_docstrings(section: type) -> dict[str, str]:
    """The string under each field of a dataclass, on one line."""
    [body] = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in pairwise(body.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _table(section: type, keys: list[Field[Any]]) -> str:
    meanings, kinds = field_docstrings(section), get_type_hints(section, include_extras=True)
    rows = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for key in keys:
        # TOML has no None: there the key is left out.
        meaning = re.sub(r"\bNone: ", "Left out: ", meanings[key.name])
        values = " or ".join(_values(kinds[key.name]))
        rows.append(f"| `{key.name}` | {_default(key)} | {values} | {_cell(meaning)} |")
    return "\n".join(rows) + "\n"


def _default(key: Field[Any]) -> str:
    assert key.default is not MISSING, f"{key.name} has no default"
    if key.default in (None, "", ()):
        return "–"
    return f"`{str(key.default).lower() if isinstance(key.default, bool) else key.default}`"


def _values(kind: Any) -> Iterator[str]:
    """What a type hint accepts, in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        [words] = _values(arguments[0])
        yield f"{words} {_bounds(arguments[1:])}".rstrip()
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _values(argument)
    elif origin is Literal:
        yield ", ".join(f"`{value}`" for value in arguments)
    elif origin is tuple:
        yield "list of strings"
    elif kind is not NoneType:
        yield {str: "string", bool: "`true`, `false`", int: "whole number", float: "number"}[kind]


def _bounds(limits: tuple[Any, ...]) -> str:
    words = []
    for limit in limits:
        if isinstance(limit, MinLen):
            continue  # that a name is not empty goes without saying
        sign, name = _SIGNS[type(limit)]
        bound = getattr(limit, name)
        words.append(f"{sign} {'2⁶³' if bound == 2**63 else bound}")
    return ", ".join(words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _readable(line: str) -> str:
    """Examples as code, and quotes as quotes."""
    if line.startswith("  tfcli "):
        return "  " + html.unescape(line)
    return line.replace("&#x27;", "'").replace("&quot;", '"').replace("&gt;", ">")


PAGES = {DOCS / "recipes.md": recipes_page, DOCS / "cli.md": cli_page}


if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")
        print(path.relative_to(ROOT))
