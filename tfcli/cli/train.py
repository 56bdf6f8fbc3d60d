"""``tfcli train``: train a model, resume a run, or begin with the weights of another one."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Json, command, first_given
from tfcli.console.settings import EVERY, OUTPUT, TRAINING, Asked, recipe_from, require_device, require_own_text
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError
from tfcli.machine import wait_asleep_if_busy

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe

_training = partial(typer.Option, rich_help_panel=TRAINING)
_output = partial(typer.Option, rich_help_panel=OUTPUT)
_RUNS = "runs/<recipe or arch>-<n>"
Out = Annotated[Path | None, _output(metavar="RUN", help="Where to put the run.", show_default=_RUNS)]
_RESUME = "Go on exactly where this run was interrupted."
_FROM = "With --resume: begin a new run at --out from this checkpoint."
_LOG = "Also log the training to this service. The run stays the same."
Log = Annotated[Literal["tensorboard", "wandb"] | None, _output("--log", help=_LOG)]
_NPROC = "How many processes train on this machine, such as one for each GPU."
DryRun = Annotated[bool, _output("--dry-run", help="Show the recipe and the model's shape, and train nothing.")]


@command
def train(
    terminal: Terminal,
    asked: Annotated[Asked, ("sources", "data", "weights", "vocab_size", "task"), EVERY],
    init: Annotated[Path | None, _training(metavar="RUN", help="Begin with the weights of this run.")] = None,
    resume: Annotated[Path | None, _training(metavar="RUN", help=_RESUME)] = None,
    checkpoint: Annotated[int | None, _training(metavar="STEP", min=0, help=_FROM)] = None,
    nproc: Annotated[int, _training(metavar="N", min=1, help=_NPROC)] = 1,
    out: Out = None,
    dry_run: DryRun = False,
    log: Log = None,
    json: Json = False,
) -> None:
    """Train a decoder, an encoder or an encoder-decoder.

    Text trains a decoder, pairs of sentences train an encoder-decoder, and without
    a SOURCE the built-in corpus is used. The tokenizer and the data are made on
    the way. An option such as --layers 2 is short for --set model.num_layers=2.

    Examples:

      tfcli train mytext.txt
      tfcli train a.de,a.en --epochs 10
      tfcli train 'books/*.txt' --arch encoder --size small --steps 5000
      tfcli train --resume runs/decoder-1
      tfcli train --resume runs/decoder-1 --steps 2000
      tfcli train --resume runs/decoder-2 --checkpoint 750 --out runs/longer \
        --steps 2000
      tfcli train --recipe my.toml --nproc 8
    """
    if checkpoint is not None and resume is None:
        raise UsageError("--checkpoint says where a run is resumed, and none is", "name it: --resume RUN")
    if log is not None and nproc > 1:  # before any of the processes begins
        from tfcli.training.tracking import require_installed

        require_installed(log)
    if resume is not None:
        others = {"--init": init, "--out": None if checkpoint is not None else out, "--dry-run": dry_run or None}
        _require_no_other_run(resume, asked, first_given(others))
        if checkpoint is not None or nproc > 1:
            from tfcli.console.reporting import reporting
            from tfcli.pipeline.training import branch_run, goes_on, prepare_text_of_run

            _changed(resume, asked)
            if checkpoint is not None:
                resume = branch_run(resume, checkpoint, out, asked.settings)
            if nproc > 1 and goes_on(resume, asked.settings, nproc):
                with reporting(terminal, json=json, stream=True) as reporter:
                    prepare_text_of_run(resume, asked.settings, reporter)
                _launch(terminal, resume, nproc, words=asked.words(), log=log, json=json)
                return
        _resume(terminal, resume, asked, log, json)
        return
    settings = recipe_from(asked, init=init)
    require_device(settings.train.device)
    require_own_text(asked.given.get("recipe"), settings)
    if dry_run:
        from tfcli.planning.command import show_plan

        show_plan(terminal, settings, asked, out=out, json=json, init=init)
        return
    wait_asleep_if_busy(settings.train.threads)
    from tfcli.console.reporting import reporting
    from tfcli.pipeline.training import begin_run, train_recipe
    from tfcli.recipe.loading import to_toml

    terminal.detail(to_toml(settings.resolved()))
    if nproc > 1:
        with reporting(terminal, json=json, stream=True) as reporter:
            run = begin_run(settings, out, reporter, nproc, init)
        _launch(terminal, run, nproc, words=[], log=log, json=json)
        return
    _drive(terminal, log, json, partial(train_recipe, settings, out, init=init))


def _require_no_other_run(run: Path, asked: Asked, other: str | None) -> None:
    """Refuse beside --resume what says how a run begins."""
    names = [name for name in ("sources", "data", "preset", "size", "recipe") if name in asked.given]
    if names and names[0] in ("sources", "data") and _names_own_text(run, asked):
        names.pop(0)
    if not names and other is None:
        return
    typed = shlex.join(asked.words(names[0])) if names else other
    remedy = "leave it out, or begin a new run: from its weights with --init, from a checkpoint with --checkpoint"
    if names and names[0] in ("sources", "data"):
        remedy = f"begin a new run with its weights: tfcli train {typed} --init {shlex.quote(str(run))}"
    problem = "--resume goes on with exactly the interrupted run, so it takes no other settings"
    raise UsageError(f"{problem} such as {typed}", remedy)


def _names_own_text(run: Path, asked: Asked) -> bool:
    """Whether the text that was typed is the run's own: its addresses are then read again."""
    from tfcli.recipe.loading import load_recorded
    from tfcli.runs.directory import existing_run

    source = asked.settings.get("data", {}).get("source")
    return source is not None and source == _as_typed(load_recorded(existing_run(run).recipe).data.source)


def _as_typed(source: str | tuple[str, ...] | None) -> str | list[str] | None:
    return list(source) if isinstance(source, tuple) else source


def _changed(run: Path, asked: Asked) -> "Recipe":
    from tfcli.recipe.loading import changed_recipe
    from tfcli.runs.directory import existing_run

    return changed_recipe(existing_run(run).recipe, asked.settings, asked.typed)[1]


def _resume(terminal: Terminal, path: Path, asked: Asked, log: Log, json: bool) -> None:
    device = "auto"
    with suppress(TfcliError):  # a run that cannot be read is refused below
        train = _changed(path, asked).train
        device = train.device
        wait_asleep_if_busy(train.threads)
    require_device(device)

    def resumed(report: Any, should_stop: Callable[[], bool], workers: Any) -> Any:
        _changed(path, asked)
        from tfcli.pipeline.training import resume_run  # loads PyTorch

        return resume_run(path, report, should_stop, asked.settings, workers)

    _drive(terminal, log, json, resumed)


def _drive(terminal: Terminal, log: Log, json: bool, job: Callable[..., Any]) -> None:
    """Run a training, show and log its events, and say at the end where the run is."""
    from tfcli.console.launching import working
    from tfcli.console.reporting import reporting
    from tfcli.training.tracking import tracking

    with (
        working(terminal) as workers,
        reporting(terminal, json=json, stream=True) as reporter,
        tracking(log if workers.is_first else None, reporter, terminal.note) as report,
    ):
        reporter.close(job(report, reporter.should_stop, workers=workers))


def _launch(terminal: Terminal, run: Path, nproc: int, words: list[str], log: Log, json: bool) -> None:
    """Go on with a run in several processes, which say what they would say alone."""
    from tfcli.console.launching import launch

    command = ["train", "--resume", str(run), *words, "--color", terminal.color, *(["--log", log] if log else [])]
    flags = {"--json": json, "--quiet": terminal.quiet, "--verbose": terminal.verbose}
    launch([*command, *(flag for flag, wanted in flags.items() if wanted)], nproc)
