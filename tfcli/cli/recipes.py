"""``tfcli recipes``: what ships."""

from typing import Annotated

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.terminal import Terminal

recipes_app = typer.Typer(help="List and show the shipped recipes.", no_args_is_help=True, add_completion=False)


@recipes_app.command("list")
@command
def list_recipes(terminal: Terminal, json: Json = False) -> None:
    """List the shipped recipes.

    With the figures that each has reached, where they are recorded.

    Example:

      tfcli recipes list
    """
    from tfcli.recipe.loading import read_toml
    from tfcli.recipe.shipped import shipped_recipes

    for name, path in shipped_recipes().items():
        settings = read_toml(path)
        result = settings.get("result", {})
        if json:
            terminal.json({"name": name, "description": settings.get("description", ""), "result": result})
            continue
        terminal.text(f"{name:<22} {settings.get('description', '')}")
        if result:
            terminal.text(f"{'':<22} reached {result.get('reached')} in {result.get('minutes')} min")


@recipes_app.command("show")
@command
def show_recipe(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="RECIPE", show_default=False)],
    json: Json = False,
) -> None:
    """Print a recipe's TOML, to read or to start one of your own.

    A file of one's own is run by its path: tfcli run mine.toml.

    Example:

      tfcli recipes show quickstart > mine.toml
    """
    from tfcli.recipe.loading import read_toml
    from tfcli.recipe.shipped import find_recipe

    path = find_recipe(name)
    settings = read_toml(path)
    if json:
        terminal.json(settings)
    else:
        terminal.text(path.read_text(encoding="utf-8").rstrip())
