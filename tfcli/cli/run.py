"""``tfcli run``: a recipe from text to pictures."""

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfcli.cli.train import DryRun, Log, Out
from tfcli.console.options import Json, argument, command
from tfcli.console.settings import LENGTH, MACHINE, Asked, recipe_from, require_device, require_own_text
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError
from tfcli.machine import wait_asleep_if_busy

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe

_CHECK = "Fail (exit 1) unless the limits of the recipe's check section are met."


@command
def run(
    terminal: Terminal,
    recipe: Annotated[str, argument(metavar="RECIPE", help="A name from `tfcli recipes list`, or a TOML file.")],
    asked: Annotated[Asked, ("assignments",), LENGTH, MACHINE],
    out: Out = None,
    again: Annotated[bool, typer.Option("--again", help="Train anew, even if this recipe has a run already.")] = False,
    dry_run: DryRun = False,
    check: Annotated[bool, typer.Option("--check", help=_CHECK)] = False,
    log: Log = None,
    json: Json = False,
) -> None:
    """Run a recipe: train, score, sample and look inside.

    The second time, a finished run is shown again and an interrupted one goes
    on. That is the run of the same recipe, settings and text below runs/, or
    the one that --out names. No run is ever overwritten.

    Examples:

      tfcli run quickstart
      tfcli run shakespeare-char --set data.source=input.txt
      tfcli run pt-en --steps 500 --out runs/short
      tfcli run quickstart --again --seed 2
    """
    from tfcli.console.reporting import reporting
    from tfcli.recipe.loading import to_toml
    from tfcli.recipe.recipe import CheckSection
    from tfcli.runs.directory import RunDirectory
    from tfcli.training.tracking import tracking

    settings = recipe_from(asked, recipe)
    require_device(settings.train.device)
    if check and settings.check == CheckSection():
        remedy = "leave --check out, or set one: --set check.max_loss=3"
        raise UsageError(f"The recipe {recipe} has no [check] limits", remedy)
    require_own_text(recipe, settings)
    if again and out is not None and RunDirectory(out).holds_run():
        raise UsageError(f"--again trains anew, and {str(out)!r} holds a run already", "choose another --out")
    wait_asleep_if_busy(settings.train.threads)
    from tfcli.inspection.attention import AttentionRecord
    from tfcli.pipeline.recipe import run_recipe
    from tfcli.pipeline.training import earlier_run
    from tfcli.records import evaluation, generation

    terminal.detail(to_toml(settings.resolved()))
    words = ["tfcli", "run", recipe, *asked.words(), *["--check"] * check, *(["--log", log] if log else [])]
    earlier = None if again or out is not None else earlier_run(settings)
    anew = f"to train anew: `{shlex.join([*words, '--again'])}`"
    if earlier is not None:
        out, goes_on = earlier[0].path, earlier[1] is None
        if goes_on:
            terminal.note(f"{out} was interrupted, and goes on; {anew}")
        elif dry_run:
            terminal.note(f"{out} is of this recipe, and would be shown; {anew}")
    if dry_run:
        from tfcli.pipeline.recipe import require_showable
        from tfcli.planning.command import show_plan

        require_showable(settings)
        show_plan(terminal, settings, asked, out=out, json=json)
        return
    translates = settings.model.architecture == "encoder-decoder"
    with (
        reporting(terminal, json=json, stream=True, again=words, translates=translates) as reporter,
        tracking(log, reporter, terminal.note) as report,
    ):
        shown: dict[type, Any] = {}

        def seen(event: Any) -> None:
            if isinstance(event, evaluation.Scores | list | generation.Filled | AttentionRecord):
                shown.setdefault(type(event), event)
            report(event)

        results = run_recipe(settings, out, seen, reporter.should_stop)
        reporter.stop_if_asked()
        if earlier is not None and not goes_on:
            when = datetime.fromtimestamp(earlier[0].metrics.stat().st_mtime).astimezone()
            terminal.note(f"{out} is of this recipe, trained on {when:%Y-%m-%d at %H:%M}; {anew}")
        reporter.hint(_following(settings, shown))
    for result in results if check else []:
        reporter(result)
    failed = [result.name for result in results if not result.passed]
    if check and failed:
        raise TfcliError(f"The recipe missed its limit on {', '.join(failed)}", "see the figures above")


def _following(settings: "Recipe", shown: dict[type, Any]) -> list[list[str]]:
    """Four commands for the run, with texts of its own: the recipe's, else the beginning of what was `shown` first."""
    from tfcli.inspection.attention import AttentionRecord
    from tfcli.records import evaluation, generation

    if evaluation.Scores not in shown:
        return []
    run, record = shown[evaluation.Scores].run, shown.get(AttentionRecord)
    made = next(iter(shown.get(list, [])), None) or shown.get(generation.Filled)
    whole = f"{made.prompt} {made.text}" if made and settings.model.architecture == "decoder" else made and made.prompt
    words = [word for word in (whole or "").split() if word.isprintable()]
    prompt = next(iter(settings.generate.prompts), " ".join(words[:3]))
    text = settings.inspect.attention or " ".join(words[:12])
    looking = ["--target", settings.inspect.target] if settings.inspect.target else []
    if record is not None:
        layer, head = record.focus
        looking += ["--head", f"{layer}.{head}"]
    return [
        ["tfcli", "generate", run, prompt] if prompt else ["tfcli", "evaluate", run],
        ["tfcli", "inspect", *(["attention", run, text, "--words", *looking] if text else ["model", run])],
        ["tfcli", "inspect", "heads", run],
        ["tfcli", "explore", run],
    ]
