"""``tfcli run``: a recipe from text to pictures."""

from typing import Annotated

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.settings import LENGTH, MACHINE, Asked
from tfcli.cli.terminal import Terminal
from tfcli.cli.train import Log, Out
from tfcli.machine import wait_asleep_if_busy

Name = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="A name from `tfcli recipes list`, or a TOML file.", show_default=False),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Fail (exit 1) unless the limits in the recipe's check section are met."),
]


@command
def run(
    terminal: Terminal,
    recipe: Name,
    asked: Annotated[Asked, ("assignments",), LENGTH, MACHINE],
    out: Out = None,
    check: Check = False,
    log: Log = None,
    json: Json = False,
) -> None:
    """Run a recipe: train, score, sample and look inside.

    A tokenizer and a dataset whose inputs have not changed are reused, and
    so is a finished run that --out names.

    Examples:

      tfcli run quickstart
      tfcli run shakespeare-char --set data.source=input.txt
      tfcli run pt-en --steps 500 --out runs/short
    """
    from tfcli.cli.reporting import reporting
    from tfcli.cli.settings import recipe_from, require_own_text
    from tfcli.errors import TfcliError, UsageError
    from tfcli.recipe.check import CheckSection
    from tfcli.recipe.saving import to_toml
    from tfcli.tracking.tracking import tracking

    settings = recipe_from(asked, recipe)
    if check and settings.check == CheckSection():
        raise UsageError(
            f"The recipe {recipe} has no [check] limits", "leave --check out, or set one: --set check.max_loss=3"
        )
    require_own_text(recipe, settings)
    wait_asleep_if_busy(settings.train.threads)
    from tfcli.pipeline.recipe import run_recipe

    terminal.detail(to_toml(settings.resolved()))
    again = ["tfcli", "run", recipe, *asked.words()]
    again += ["--check"] if check else []
    again += ["--log", log] if log else []
    translates = settings.model.architecture == "encoder-decoder"
    with (
        reporting(terminal, json=json, stream=True, again=again, translates=translates) as reporter,
        tracking(log, reporter, terminal.note) as report,
    ):
        results = run_recipe(settings, out, report, reporter.should_stop)
        reporter.stop_if_asked()
        reporter.hint()
    for result in results if check else []:
        reporter(result)
    failed = [result.name for result in results if not result.passed]
    if check and failed:
        raise TfcliError(f"The recipe missed its limit on {', '.join(failed)}", "see the figures above")
