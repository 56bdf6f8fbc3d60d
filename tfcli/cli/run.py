"""``tfcli run``: a recipe from text to pictures."""

from pathlib import Path
from typing import Annotated

import typer

from tfcli.cli.options import Device, Json, Seed, Set, Threads, command
from tfcli.cli.terminal import Terminal
from tfcli.cli.train import Out

Name = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A name from `tfcli recipes list`, or a TOML file.", show_default=False)
]
Check = Annotated[bool, typer.Option("--check", help="Fail (exit 1) unless the recipe's [check] limits are met.")]


@command
def run(
    terminal: Terminal,
    recipe: Name,
    assignments: Set = None,
    out: Out = None,
    check: Check = False,
    seed: Seed = None,
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Run a recipe: tokenizer, data, training, evaluation, samples, and a look inside.

    Stages whose inputs have not changed are skipped.

    Examples:

      tfcli run quickstart

      tfcli run shakespeare-char --set data.source=input.txt

      tfcli run pt-en --set train.steps=500 --out runs/short
    """
    from tfcli.cli.reporting import reporting
    from tfcli.cli.settings import recipe_from
    from tfcli.errors import TfcliError
    from tfcli.pipeline.recipe import run_recipe

    settings = recipe_from(recipe=recipe, assignments=assignments, seed=seed, device=device, threads=threads)
    with reporting(terminal, json=json, recipe=recipe) as reporter:
        results = run_recipe(settings, out, reporter, reporter.should_stop)
        reporter.stop_if_asked()
        reporter.hint()
    for result in results if check else []:
        reporter(result)
    failed = [result.name for result in results if not result.passed]
    if check and failed:
        raise TfcliError(f"The recipe missed its limit on {', '.join(failed)}", "see the figures above")
