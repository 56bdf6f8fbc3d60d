"""Writes the pages of docs/ that are made from the code: `python -m tests.docs.generate`."""

import html
import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from tfcli.recipe.keys import RecipeKey, recipe_keys
from tfcli.recipe.recipe import SECTIONS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

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
preset > default. An unknown key is refused with the one that is meant: `lr` and
`n_embd` are known, and answered with their name here. `tfcli recipes keys WORD` finds keys, by these words too.

A default of – means that the key is left out; its meaning says what then holds. A run's own `recipe.toml` has
every setting written out.
"""


def recipes_page() -> str:
    """docs/recipes.md, from the recipe's dataclasses and the docstrings under their fields."""
    keys = {section: list(of) for section, of in groupby(recipe_keys(), lambda key: key.name.rpartition(".")[0])}
    parts = [_RECIPES_INTRO, "## Top level\n\n" + _table(keys[""])]
    for name, section in SECTIONS.items():
        about = inspect.cleandoc(section.__doc__ or "")
        parts.append(f"## `[{name}]`\n\n{about}\n\n" + _table(keys[name]))
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


def _table(keys: list[RecipeKey]) -> str:
    rows = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for key in keys:
        values = " or ".join([*key.kinds, *filter(None, [", ".join(f"`{choice}`" for choice in key.choices)])])
        default = f"`{key.spelled_default}`" if key.spelled_default else "–"
        rows.append(f"| `{key.name.rpartition('.')[2]}` | {default} | {values} | {_cell(key.meaning)} |")
    return "\n".join(rows) + "\n"


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
