"""Writes the pages of docs/ that are made from the code, and what completion reads: `python -m tests.docs.generate`."""

import html
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from tests.lectures.proofs import PROOFS
from tests.support.app import app
from tfcli.lectures import Idea, Lecture, lectures
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
    words = ["typer", "tests.support.app", "utils", "docs", "--name", "tfcli", "--title", "Commands"]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    lines = [made_with_typer(), "", *map(_readable, done.stdout.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def commands_file() -> str:
    """tfcli/cli/commands.json, which shell completion reads: commands with their options and arguments, what these take
    and mean; and the keys of a recipe with what they can be."""

    def takes(parameter: Any) -> str:
        if getattr(parameter, "is_flag", False):
            return ""
        choices = [get_args(kind) for kind in (parameter.type_descriptor.annotation,) if get_origin(kind) is Literal]
        return "|".join(choices[0]) if choices else (parameter.metavar or "N").strip("[]")

    def shape(command: Any) -> dict[str, Any]:
        about = {"help": (command.help or "").split("\n\n")[0].replace("\n", " ")}
        if inner := getattr(command, "commands", {}):
            return {**about, "commands": {name: shape(one) for name, one in inner.items()}}
        own = [
            (parameter, parameter.param_type_name == "option")
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        ]
        options = {name: [takes(one), one.help] for one, is_option in own for name in one.opts if is_option}
        return {**about, "options": options, "arguments": [takes(one) for one, is_option in own if not is_option]}

    keys = {}
    for key in recipe_keys():
        default = key.spelled_default if isinstance(key.default, int | float | str) else ""
        values = dict.fromkeys(filter(None, [default, *key.choices]))
        keys[key.name] = [list(values), re.split(r"(?<!al)\. ", key.meaning)[0].rstrip(".")]
    known = {**shape(typer.main.get_command(app)), "keys": keys}
    return json.dumps(known, ensure_ascii=False).replace('{"help": ', '\n{"help": ') + "\n"  # a line a command


_LECTURES_INTRO = """\
# Five lectures, and the command that shows each idea

Every idea of five texts: a command to run, what you see, and what the command printed. `tfcli lectures` lists the
same ideas in the terminal, and `tfcli lectures run bishop` runs the ideas of one text, one after the other. Some
commands look into a trained model; they need three runs:

```sh
{runs}
```

tfcli writes rows as tokens: X is N × D, and a weight matrix stands on the right. UDL writes columns as tokens;
`tfcli explain … --notation bishop|udl|cs224n|inf721` writes as each text does. The outputs are those of a terminal of
80 columns without colour, on runs like the above; other weights give other numbers.

"""


def lectures_page() -> str:
    """docs/lectures.md, from the map of the lectures."""
    held = lectures()
    runs = "\n".join(run["command"] for run in held.runs.values())
    return _LECTURES_INTRO.format(runs=runs) + "\n".join(map(_lecture, held.lectures))


def _lecture(one: Lecture) -> str:
    rows = ["| id | idea | command, and what you see | output |", "|---|---|---|---|"]
    slips = [textwrap.fill(slip["is"], 118, initial_indent="- ", subsequent_indent="  ") for slip in one.slips]
    parts = [f"## {one.title}", f"Its convention: {one.convention}.", "\n".join([*rows, *map(_idea, one.ideas)])]
    return "\n\n".join([*parts, "Where a reader would be misled:", "\n".join(slips)]) + "\n"


def _idea(one: Idea) -> str:
    commands = "<br>".join(f"`{line}`" for line in one.commands)
    shown = f"{commands}<br>{one.see}"
    return f'| <a id="{one.id}"></a>{one.id} | {one.idea} | {shown} | [{one.id}.txt](lectures/{one.id}.txt) |'


_PROOFS_INTRO = """\
# Tests of the ideas of the lectures

For maintainers. Each idea of [lectures.md](lectures.md) has a test that checks it against a value derived by hand or an
independent reference, and a mutation: a change that makes the program wrong and that the test must catch. Generated
from `tests/lectures/proofs.toml`. To apply every mutation to a copy of the repository and run its test:

```sh
pytest -m slow tests/lectures
```

"""


def lecture_tests_page() -> str:
    """docs/lectures-tests.md, from the proofs of the ideas."""
    rows = ["| id | test | mutation that the test catches |", "|---|---|---|"]
    for proof in PROOFS.values():
        file, name = proof.test.split("::")
        mutation = proof.mutation
        test = f"[{name.removeprefix('test_').replace('_', ' ')}](../{file})"
        change = f"{_code(mutation.new)} for {_code(mutation.old)} in `{mutation.file}`"
        rows.append(f"| [{proof.id}](lectures.md#{proof.id}) | {test} | {change} |")
    return _PROOFS_INTRO + "\n".join(rows) + "\n"


def _code(text: str) -> str:
    """A piece of code in a cell of a table."""
    return f"`{text.strip()}`".replace("|", "\\|")


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


PAGES = {
    DOCS / "recipes.md": recipes_page,
    DOCS / "cli.md": cli_page,
    DOCS / "lectures.md": lectures_page,
    DOCS / "lectures-tests.md": lecture_tests_page,
    ROOT / "tfcli/cli/commands.json": commands_file,
}


if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")
        print(path.relative_to(ROOT))
