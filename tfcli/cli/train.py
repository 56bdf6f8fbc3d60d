"""``tfcli train``: train a model, or go on with a run."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Device, Json, Seed, Set, Threads, command
from tfcli.cli.terminal import Terminal
from tfcli.machine import wait_asleep_if_busy

Arch = Annotated[
    Literal["decoder", "encoder", "encoder-decoder"] | None,
    typer.Option(
        "--arch",
        metavar="ARCH",
        help="decoder, encoder or encoder-decoder.",
        show_default="the recipe's, else decoder",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="SOURCE|DIR",
        help="Text, or a folder made by `tfcli prepare`.",
        show_default="builtin:stories, or builtin:pt-en for pairs",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="A named shape: gpt2, bert, t5, modern …"),
]
Size = Annotated[
    Literal["tiny", "mini", "small", "base"] | None,
    typer.Option("--size", help="Scale of the model.", show_default="mini"),
]
RecipeName = Annotated[
    str | None,
    typer.Option("--recipe", metavar="FILE|NAME", help="A TOML file or a name from `tfcli recipes list`."),
]
Init = Annotated[Path | None, typer.Option("--init", metavar="RUN", help="Begin with the weights of this run.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="RUN", help="Where to put the run.", show_default="runs/<recipe or arch>-<n>"),
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="RUN", help="Go on exactly where this run was interrupted.")
]
From = Annotated[
    int | None,
    typer.Option(
        "--checkpoint", metavar="STEP", min=0, help="With --resume: begin a new run at --out from this checkpoint."
    ),
]
Log = Annotated[
    Literal["tensorboard", "trackio", "wandb"] | None,
    typer.Option("--log", help="Tell this service of the training, too; it changes nothing of the run."),
]
Nproc = Annotated[
    int,
    typer.Option("--nproc", metavar="N", min=1, help="Processes on this machine, such as one for each GPU."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the recipe and the model's shape; train nothing.")]


@command
def train(
    terminal: Terminal,
    arch: Arch = None,
    data: Data = None,
    preset: Preset = None,
    size: Size = None,
    recipe: RecipeName = None,
    assignments: Set = None,
    init: Init = None,
    out: Out = None,
    resume: Resume = None,
    checkpoint: From = None,
    dry_run: DryRun = False,
    nproc: Nproc = 1,
    log: Log = None,
    seed: Seed = None,
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Train a decoder, an encoder or an encoder-decoder.

    With --arch alone, a small model is trained on the built-in corpus: the
    tokenizer and the data are made on the way.

    Examples:

      tfcli train --arch decoder
      tfcli train --arch encoder --data 'books/*.txt' --size small
      tfcli train --arch encoder-decoder --data train.tsv --set train.steps=5000
      tfcli train --resume runs/decoder-1
      tfcli train --resume runs/decoder-1 --set train.steps=2000
      tfcli train --resume runs/decoder-2 --checkpoint 750 --out runs/longer \
        --set train.steps=2000
      tfcli train --recipe my.toml --nproc 8
    """
    from tfcli.cli.settings import recipe_from, require_own_text
    from tfcli.errors import UsageError

    branches = resume is not None and checkpoint is not None
    settled = [arch, data, preset, size, recipe, init, None if branches else out, dry_run, threads]
    if resume is not None and (any(settled) or seed is not None or device != "auto"):
        raise UsageError(
            "--resume goes on with exactly the interrupted run, so it takes no other settings but --set",
            "leave them out, or begin a new run: from its weights with --init, from a checkpoint with --checkpoint",
        )
    if checkpoint is not None and resume is None:
        raise UsageError("--checkpoint says where a run is resumed, and none is", "name it: --resume RUN")
    if log is not None and nproc > 1:  # before any of the processes begins
        from tfcli.tracking.tracking import require_installed

        require_installed(log)
    if resume is not None and checkpoint is not None:
        from tfcli.pipeline.training import branch_run
        from tfcli.recipe.loading import parse_assignments

        resume = branch_run(resume, checkpoint, out, parse_assignments(assignments or []))
    if nproc > 1 and resume is not None:
        from tfcli.pipeline.training import goes_on
        from tfcli.recipe.loading import parse_assignments

        if goes_on(resume, parse_assignments(assignments or []), nproc):
            _launch(terminal, resume, nproc, assignments or [], log, json)
            return
    if resume is not None:
        _resume(terminal, resume, assignments or [], log, json)
        return
    settings = recipe_from(
        arch=arch,
        recipe=recipe,
        size=size,
        preset=preset,
        assignments=assignments,
        data=data,
        seed=seed,
        device=device,
        threads=threads,
        init=init,
    )
    if dry_run:
        from tfcli.cli.dry_run import show_plan

        show_plan(terminal, settings, init, json, preset, size)
        return
    require_own_text(recipe, settings)
    wait_asleep_if_busy(settings.train.threads)
    from tfcli.cli.launching import working
    from tfcli.cli.reporting import reporting
    from tfcli.pipeline.training import begin_run, train_recipe
    from tfcli.recipe.saving import to_toml
    from tfcli.tracking.tracking import tracking

    terminal.detail(to_toml(settings.resolved()))
    if nproc > 1:
        with reporting(terminal, json=json, stream=True) as reporter:
            run = begin_run(settings, out, reporter, nproc, init)
        _launch(terminal, run, nproc, [], log, json)
        return
    with (
        working(terminal) as workers,
        reporting(terminal, json=json, stream=True) as reporter,
        tracking(log if workers.is_first else None, reporter, terminal.note) as report,
    ):
        reporter.close(train_recipe(settings, out, report, reporter.should_stop, init, workers))


def _resume(terminal: Terminal, path: Path, assignments: list[str], log: Log, json: bool) -> None:
    from tfcli.cli.launching import working
    from tfcli.cli.reporting import reporting
    from tfcli.errors import TfcliError
    from tfcli.recipe.loading import load_recorded, parse_assignments
    from tfcli.runs.directory import RunDirectory
    from tfcli.tracking.tracking import tracking

    settings = parse_assignments(assignments)
    with suppress(TfcliError):  # a run that cannot be read is refused below
        wait_asleep_if_busy(load_recorded(RunDirectory(path).recipe).train.threads)
    with (
        working(terminal) as workers,
        reporting(terminal, json=json, stream=True) as reporter,
        tracking(log if workers.is_first else None, reporter, terminal.note) as report,
    ):
        from tfcli.pipeline.training import resume_run  # loads PyTorch

        reporter.close(resume_run(path, report, reporter.should_stop, settings, workers))


def _launch(terminal: Terminal, run: Path, nproc: int, assignments: list[str], log: Log, json: bool) -> None:
    """Go on with a run in several processes, which say what they would say alone."""
    from tfcli.cli.launching import launch

    command = ["train", "--resume", str(run), "--color", terminal.color]
    command += [word for assignment in assignments for word in ("--set", assignment)]
    command += ["--log", log] if log else []
    flags = {"--json": json, "--quiet": terminal.quiet, "--verbose": terminal.verbose}
    launch([*command, *(flag for flag, wanted in flags.items() if wanted)], nproc)
