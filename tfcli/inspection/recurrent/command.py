"""``tfcli inspect recurrent``: Bahdanau's attention in an RNN beside a transformer, both trained on the spot."""

from typing import TYPE_CHECKING, Annotated

import typer

from tfcli.console.options import Outputs, Threads, argument, command, present, use_threads
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe

_TEXT = argument(metavar="TEXT", help="A Portuguese sentence to translate; - for stdin.", show_default=True)
_SETTINGS = {"learning_rate": 6e-3, "batch_size": 64, "label_smoothing": 0.0, "device": "cpu", "precision": "float32"}


def shown_recipe(steps: int, seed: int, threads: int) -> "Recipe":
    """The recipe of the three trainings: that of pt-en, with narrower models."""
    from tfcli.recipe.loading import build_recipe, read_recipe

    train = {**_SETTINGS, "steps": steps, "warmup_steps": steps // 10, "seed": seed, "threads": threads}
    return build_recipe(read_recipe("pt-en"), {"model": {"d_model": 64}, "train": train})


@command
def recurrent(
    terminal: Terminal,
    outputs: Outputs,
    text: Annotated[str, _TEXT] = "Em Dezembro, Lucas irá viajar ao Rio.",
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Steps of each training.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and batches.")] = 0,
    threads: Threads = 1,
) -> None:
    """Train Bahdanau's RNN with attention beside a transformer, and compare.

    An RNN without attention, one with it and a transformer as large learn the
    built-in pairs in a minute or two, and are not kept: their held-out loss, the
    time of a step, how far gradients reach, where they look as they translate.

    Examples:

      tfcli inspect recurrent
      tfcli inspect recurrent "Ana não comprou o livro vermelho." --steps 200
    """
    from tfcli.console.stdin import read_text
    from tfcli.inspection.recurrent.compute import compared
    from tfcli.inspection.recurrent.view import RecurrentView, recurrent_table
    from tfcli.pipeline.datasets import obtain_data

    if not (text := read_text(text)).strip():
        raise UsageError("The text is empty", "give a few words")
    use_threads(threads)
    recipe = shown_recipe(steps, seed, threads)
    with terminal.progress() as tell:
        tell("Preparing builtin:pt-en")
        record = compared(recipe, *obtain_data(recipe, lambda event: None), text, tell)
    present(terminal, outputs, RecurrentView(record), record, recurrent_table)
