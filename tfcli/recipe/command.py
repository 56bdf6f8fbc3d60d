"""``tfcli recipes``: list and show the shipped recipes, and find recipe keys."""

import textwrap
from dataclasses import asdict
from json import dumps, loads
from typing import Annotated

import typer

from tfcli.console.options import Json, argument, command
from tfcli.console.terminal import Terminal

recipes_app = typer.Typer()
_WORD = "A word of a key, of its meaning, or its name elsewhere."


@recipes_app.command("list")
@command
def list_recipes(terminal: Terminal, json: Json = False) -> None:
    """List the shipped recipes.

    With the figures that each has reached, where they are recorded.

    Example:

      tfcli recipes list
    """
    from tfcli.recipe import loading, shipped

    for name, path in shipped.shipped_recipes().items():
        settings = loading.read_toml(path)
        result = settings.get("result", {})
        if json:
            terminal.json({"name": name, "description": settings.get("description", ""), "result": result})
            continue
        terminal.message(f"{name:<22} {settings.get('description', '')}")
        if result:
            terminal.message(f"{'':<22} reached {result.get('reached')} in {result.get('minutes')} min")


@recipes_app.command("show")
@command
def show_recipe(
    terminal: Terminal,
    name: Annotated[str, argument(metavar="RECIPE", help="A name from the list, or a TOML file.")],
    json: Json = False,
) -> None:
    """Print a recipe's TOML, to read or to start one of your own.

    Run a file of your own by its path: tfcli run mine.toml.

    Example:

      tfcli recipes show quickstart > mine.toml
    """
    from tfcli.recipe import loading, shipped

    path = shipped.find_recipe(name)
    settings = loading.read_toml(path)
    if json:
        loading.build_recipe(settings)  # refuses what JSON cannot hold, with the key
        terminal.json(loads(dumps(settings, default=str)))  # TOML has dates and times, JSON has none
    else:
        terminal.text(path.read_text(encoding="utf-8").rstrip())


@recipes_app.command("keys")
@command
def list_keys(
    terminal: Terminal,
    word: Annotated[str | None, typer.Argument(metavar="WORD", help=_WORD, show_default="every key")] = None,
    json: Json = False,
) -> None:
    """Find the keys of a recipe, for --set and TOML files.

    Each key with its default, what it accepts, its unit, its meaning with
    the paper it comes from, and its names in other programs.

    Examples:

      tfcli recipes keys warmup
      tfcli recipes keys n_embd
    """
    from tfcli.recipe.keys import find_keys, recipe_keys

    for key in recipe_keys() if word is None else find_keys(word):
        if json:
            terminal.json(asdict(key))
            continue
        accepted = " or ".join([*key.kinds, *filter(None, [" | ".join(key.choices)])])
        head = f"{key.name} = {key.spelled_default}" if key.spelled_default else f"{key.name}, left out"
        wrap = textwrap.TextWrapper(terminal.out.width, subsequent_indent="    ", break_on_hyphens=False)
        first, *lines = wrap.wrap(f"{head}   {accepted}")
        wrap.initial_indent = wrap.subsequent_indent
        for about in (key.meaning, f"Elsewhere: {', '.join(key.synonyms)}." if key.synonyms else ""):
            lines += wrap.wrap(about)
        terminal.write(f"{first}\n", "bold")
        terminal.text("\n".join(lines))
