"""``tfcli bench``: measured speed."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.cli.options import Device, Json, Seed, Set, Threads, command
from tfcli.cli.terminal import Terminal
from tfcli.cli.train import Arch, Preset, RecipeName, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfcli.recipe.recipe import Recipe

bench_app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True, add_completion=False)


@bench_app.command("train")
@command
def bench_train(
    terminal: Terminal,
    arch: Arch = None,
    preset: Preset = None,
    size: Size = None,
    recipe: RecipeName = None,
    assignments: Set = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps to measure, after three that warm up.")] = 20,
    against: Annotated[
        Literal["transformers"] | None,
        typer.Option("--against", help="Train the same shape there too, in turns, and print the ratio."),
    ] = None,
    seed: Seed = None,
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Measure how fast a recipe trains.

    Tokens a second, the spread of the step times, the share of this machine's
    fastest matrix product, and peak memory. The steps are those of `tfcli train`,
    on random ids: no text is read and nothing is written.

    Examples:

      tfcli bench train --size tiny
      tfcli bench train --preset gpt2 --size tiny --against transformers
    """
    from tfcli.bench.train import bench_training
    from tfcli.cli.settings import recipe_from
    from tfcli.render.as_json import to_json
    from tfcli.render.bench import TrainingSpeedView

    settings = recipe_from(
        arch=arch,
        recipe=recipe,
        size=size,
        preset=preset,
        assignments=assignments,
        seed=seed,
        device=device,
        threads=threads,
    )
    settings = _with_vocabulary(terminal, settings)
    with _progress(terminal) as tell:
        speed = bench_training(settings, steps, transformers=against is not None, tell=tell)
    if json:
        terminal.json(to_json(speed))
    else:
        terminal.show(TrainingSpeedView(speed))


def _with_vocabulary(terminal: Terminal, recipe: "Recipe") -> "Recipe":
    """The vocabulary is a size of the model: that of the recipe's tokenizer, where the model says none."""
    from dataclasses import replace
    from pathlib import Path

    from tfcli.tokenization.load import load_tokenizer

    if recipe.model.vocab_size is not None:
        return recipe
    if recipe.tokenizer.path is not None:
        ids = load_tokenizer(Path(recipe.tokenizer.path)).vocab_size
    else:
        ids = recipe.tokenizer.vocab_size
        terminal.note(f"The vocabulary is taken as tokenizer.vocab_size = {ids}; set another with model.vocab_size.")
    return replace(recipe, model=replace(recipe.model, vocab_size=ids))


@contextmanager
def _progress(terminal: Terminal) -> "Iterator[Callable[[str], None]]":
    """A line that says what is going on, where someone watches."""
    if terminal.quiet or not terminal.err.is_terminal:
        yield lambda _: None
        return
    with terminal.err.status("") as status:
        yield status.update
