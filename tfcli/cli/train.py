"""``tfcli train``: train a model, or go on with a run."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Device, Json, Seed, Set, Threads, command
from tfcli.cli.terminal import Terminal

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
    dry_run: DryRun = False,
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
    """
    from tfcli.cli.settings import recipe_from, require_own_text
    from tfcli.errors import UsageError

    settled = [arch, data, preset, size, recipe, assignments, init, out, dry_run, threads]
    if resume is not None and (any(settled) or seed is not None or device != "auto"):
        raise UsageError(
            "--resume goes on with exactly the interrupted run, so it takes no other settings",
            "leave them out, or begin a new run from its weights with --init",
        )
    if resume is not None:
        _resume(terminal, resume, json)
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

        show_plan(terminal, settings, init, json)
        return
    require_own_text(recipe, settings)
    from tfcli.cli.reporting import reporting
    from tfcli.pipeline.training import train_recipe
    from tfcli.recipe.saving import to_toml

    terminal.detail(to_toml(settings.resolved()))
    with reporting(terminal, json=json, stream=True) as reporter:
        reporter.close(train_recipe(settings, out, reporter, reporter.should_stop, init))


def _resume(terminal: Terminal, path: Path, json: bool) -> None:
    from tfcli.cli.reporting import reporting
    from tfcli.pipeline.training import resume_run

    with reporting(terminal, json=json, stream=True) as reporter:
        reporter.close(resume_run(path, reporter, reporter.should_stop))
