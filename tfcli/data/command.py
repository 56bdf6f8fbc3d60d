"""``tfcli prepare`` and ``tfcli cache``: text to a dataset of token ids, and what the cache of them holds."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.console.options import Json, TextSeed, command
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files, globs, -, builtin:NAME or hf:owner/name\\[:config]\\[@split].",
        show_default=False,
    ),
]


@command
def prepare(
    terminal: Terminal,
    sources: Sources,
    tokenizer: Annotated[Path, typer.Option(metavar="FILE|RUN", help="A tokenizer.json or a run.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    pairs: Annotated[bool, typer.Option("--pairs", help="The source is pairs of sentences.")] = False,
    split: Annotated[
        Literal["hash", "tail", "file"] | None,
        typer.Option(
            help="How to hold out the validation part.",
            show_default="the source's own, else hash; tail below 100 documents",
        ),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="The validation part, for --split file.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the data section, such as data.columns."),
    ] = None,
    seed: TextSeed = None,
    json: Json = False,
) -> None:
    """Turn text into a dataset of token ids on disk.

    Any number of trainings read it, memory-mapped: tfcli train --data DIR.

    Examples:

      tfcli prepare books/*.txt --tokenizer tokenizer.json --out data/books
      tfcli prepare train.tsv --pairs --tokenizer runs/translator --out data/pairs --split hash
    """
    from tfcli.console.reporting import reporting
    from tfcli.corpora.split import open_split
    from tfcli.data.prepare import prepare as prepare_dataset
    from tfcli.data.shards import MANIFEST_NAME
    from tfcli.files import claimed
    from tfcli.recipe.loading import build_recipe, parse_assignments
    from tfcli.records.runs import StageProgress, StageStarted
    from tfcli.tokenization.tokenizer import load_tokenizer

    names = sources[0] if len(sources) == 1 else sources
    given = {"source": names, "split": split, "validation": validation, "seed": seed}
    settings = parse_assignments(assignments or [])
    for name in settings.keys() - {"data"}:
        problem = f"--set {name!r} is no setting of a dataset"
        raise UsageError(problem, "set keys that begin with data, such as data.columns")
    flags = {key: value for key, value in given.items() if value is not None}  # another one would take a --set away
    section = build_recipe(settings, {"data": flags}).data
    # A dataset that is there may be the very same, and is then taken as it is.
    claim = nullcontext() if (out / MANIFEST_NAME).is_file() else claimed(out)
    with claim, reporting(terminal, json=json) as reporter:
        division = open_split(section, "pairs" if pairs else "text")
        loaded = load_tokenizer(tokenizer)
        reporter(StageStarted("data", ", ".join(sources)))
        progress = partial(StageProgress, "data")
        reporter.result(prepare_dataset(division, loaded, out, progress=lambda *done: reporter(progress(*done))))


cache_app = typer.Typer()
_DAY = 86400.0


@cache_app.command("list")
@command
def list_cache(terminal: Terminal, json: Json = False) -> None:
    """List what is in the cache, the last used first.

    Each prepared dataset and each trained tokenizer with its size, when it was
    last used, and what it was made from.

    Example:

      tfcli cache list
    """
    from tfcli.data.cache import entries
    from tfcli.data.view import CacheList
    from tfcli.draw.numbers import short
    from tfcli.draw.tables import to_json
    from tfcli.files import cache_folder

    found = entries()
    if json:
        for entry in found:
            terminal.json(to_json(entry))
    elif found:
        terminal.show(CacheList(found))
    terminal.note(f"{short(sum(entry.size for entry in found), 'B')} in the cache {cache_folder()}")


@cache_app.command("prune")
@command
def prune_cache(
    terminal: Terminal,
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Remove what was not used for this many days.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove everything, however recently it was used.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and remove nothing.")] = False,
    json: Json = False,
) -> None:
    """Remove prepared datasets and trained tokenizers from the cache.

    Runs stay as they are: what a run needs is made again from its sources.
    What a process is reading, and what came from standard input, is kept.

    Examples:

      tfcli cache prune --older-than 30
      tfcli cache prune --all --dry-run
    """
    from tfcli.data.cache import prune
    from tfcli.data.view import CacheList
    from tfcli.draw.numbers import short
    from tfcli.draw.tables import to_json

    if everything == (older_than is not None):
        problem = "Say what is to go" if older_than is None else "--all and --older-than are two answers"
        remedy = "`tfcli cache prune --older-than 30`, or `tfcli cache prune --all`; --dry-run shows it first"
        raise UsageError(problem, remedy)
    done = list(prune((older_than or 0.0) * _DAY, dry_run=dry_run))
    gone = [entry for entry, kept in done if not kept]
    for entry, kept in done if json else ():
        terminal.json({**to_json(entry), "removed": not kept and not dry_run, "left": kept or None})
    if gone and not json:
        terminal.show(CacheList(gone))
    for entry, kept in done:
        if kept:
            terminal.note(f"Left: {entry.path} ({short(entry.size, 'B')}), {kept}")
    terminal.note(f"{'Would free' if dry_run else 'Freed'} {short(sum(entry.size for entry in gone), 'B')}")
    if failed := [kept for _, kept in done if kept.startswith("cannot be")]:
        raise TfcliError(f"{len(failed)} of {len(done)} {failed[0]}", "see above, and remove them by hand")
