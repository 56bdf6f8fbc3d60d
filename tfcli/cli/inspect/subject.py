"""The model section of a run or of a recipe, for commands that need no weights."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfcli.cli.settings import Asked, recipe_from, with_vocabulary
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.recipe.model import ModelSection

RunOrRecipe = Annotated[
    Path | None, typer.Argument(metavar="RUN", help="A run; without one, the options name a shape.", show_default=False)
]


def section_of(terminal: Terminal, run: Path | None, asked: Asked, *, vocabulary: bool = True) -> "ModelSection":
    """The model section. No weights are read.

    Args:
        vocabulary: whether its size must be there, and is the tokenizer's where the model says none.

    Raises:
        UsageError: a run and a shape are both named, or the recipe is wrong.
    """
    from tfcli.runs.config import read_config
    from tfcli.runs.finding import existing_run

    if run is not None:
        refuse_beside_run(run, asked)
        return read_config(existing_run(run).config).model
    chosen = recipe_from(asked)
    return with_vocabulary(terminal, chosen).model if vocabulary else chosen.model


def refuse_beside_run(run: Path, asked: Asked) -> None:
    """Refuse the first option of a shape that was given beside a run.

    Raises:
        UsageError: names it.
    """
    for name in asked.given:
        option = asked.words(name)[0]
        raise UsageError(f"The run {run} has a shape of its own", f"leave {option} out, or leave the run out")
