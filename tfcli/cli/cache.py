"""``tfcli cache``: the prepared datasets and trained tokenizers that runs share: list them, remove them."""

from typing import Annotated

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.terminal import Terminal
from tfcli.errors import TfcliError, UsageError

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
    from tfcli.files import cache_folder
    from tfcli.render.dataset import CacheList
    from tfcli.render.numbers import short

    found = entries()
    if json:
        from tfcli.render.as_json import to_json

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
    from tfcli.render.as_json import to_json
    from tfcli.render.dataset import CacheList
    from tfcli.render.numbers import short

    if everything == (older_than is not None):
        raise UsageError(
            "Say what is to go" if older_than is None else "--all and --older-than are two answers",
            "`tfcli cache prune --older-than 30`, or `tfcli cache prune --all`; --dry-run shows it first",
        )
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
