"""``tfcli prepare`` and ``tfcli cache``: text to a dataset of token ids, and what the cache of them holds."""

import shlex
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tfcli.console.options import Json, TextSeed, command
from tfcli.console.settings import flag_of
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError

_PLACES = "Files, globs, -, builtin:NAME or hf:owner/name\\[:config]\\[@split]."
_SOURCE = typer.Argument(metavar="SOURCE", help=_PLACES, show_default=False)
Sources = Annotated[list[str], _SOURCE]
_of_sources = partial(typer.Option, rich_help_panel="Sources")
_WEIGHTS = "Shares of the training tokens, in the order of the sources."
_SPLIT = "the source's own, else hash; tail below 100 documents"
_CUT, _ALL = "Leave out of this part what stands in the other one, too.", "nothing is left out"
_SET = "Set a key of the data section, such as data.columns."
_of_work = partial(typer.Option, rich_help_panel="Division of labour")
_CLUSTER, _OWN = "Where the cluster is, for --engine.", "one that is started here"
_IDS, _APPENDED = "A tokenizer.json or a run.", "with --append, its own"
_HOLD_OUT, _VALIDATION = "How to hold out the validation part.", "The validation part, for --split file."
_BAD, _RAY = "At a record that cannot be read.", "Encode on a Ray cluster (the extra `ray`)."
OnBadRecord = Annotated[Literal["refuse", "skip"] | None, _of_sources(help=_BAD, show_default="refuse")]


@command
def prepare(
    terminal: Terminal,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    sources: Annotated[list[str] | None, _SOURCE] = None,
    tokenizer: Annotated[Path | None, typer.Option(metavar="FILE|RUN", help=_IDS, show_default=_APPENDED)] = None,
    pairs: Annotated[bool, _of_sources("--pairs", help="The source is pairs of sentences.")] = False,
    weights: Annotated[str | None, _of_sources(metavar="N,N", help=_WEIGHTS)] = None,
    split: Annotated[Literal["hash", "tail", "file"] | None, _of_sources(help=_HOLD_OUT, show_default=_SPLIT)] = None,
    validation: Annotated[str | None, _of_sources(metavar="SOURCE", help=_VALIDATION)] = None,
    drop_duplicates: Annotated[Literal["train", "validation"] | None, _of_sources(help=_CUT, show_default=_ALL)] = None,
    assignments: Annotated[list[str] | None, _of_sources("--set", metavar="KEY=VALUE", help=_SET)] = None,
    on_bad_record: OnBadRecord = None,
    seed: TextSeed = None,
    append: Annotated[bool, _of_work("--append", help="Add the sources to the dataset in DIR.")] = False,
    workers: Annotated[int, _of_work(metavar="N", min=1, max=1024, help="Processes that encode.")] = 1,
    engine: Annotated[Literal["ray"] | None, _of_work(help=_RAY, show_default=False)] = None,
    address: Annotated[str | None, _of_work(metavar="HOST:PORT", help=_CLUSTER, show_default=_OWN)] = None,
    shard: Annotated[str | None, _of_work(metavar="I/N", help="Encode the share of machine I of N alone.")] = None,
    merge: Annotated[bool, _of_work("--merge", help="The sources are the folders of all shares.")] = False,
    json: Json = False,
) -> None:
    """Turn text into a dataset of token ids on disk.

    Any number of trainings read it, memory-mapped: tfcli train --data DIR.
    What is killed goes on where it was when the same command is given again.

    Examples:

      tfcli prepare books/*.txt --tokenizer tokenizer.json --out data/books
      tfcli prepare train.tsv --pairs --tokenizer runs/translator --out data/pairs --split hash
      tfcli prepare web.jsonl wiki.jsonl --weights 3,1 --tokenizer tokenizer.json --out data/mix
      tfcli prepare web.jsonl --tokenizer tokenizer.json --shard 2/8 --out parts/2
      tfcli prepare shares/1 shares/2 --merge --out data/web
    """
    from tfcli.console.reporting import reporting
    from tfcli.console.settings import weighted_sources
    from tfcli.corpora.split import open_split
    from tfcli.data import chunks, shards
    from tfcli.data import prepare as preparing
    from tfcli.data.workers import Origin
    from tfcli.draw.numbers import plural
    from tfcli.files import claimed
    from tfcli.recipe.loading import build_recipe, parse_assignments
    from tfcli.records.runs import StageProgress, StageStarted
    from tfcli.tokenization.tokenizer import load_tokenizer

    sources = sources or []
    if address and not engine:
        raise UsageError(f"--address {address} is of an engine, and there is none", "add --engine ray")
    ways = {"--append": append, "--merge": merge, "--shard": shard, "--workers": workers > 1 or engine}
    if len(used := [name for name, value in ways.items() if value]) > 1:
        raise UsageError(f"{used[0]} and {used[1]} do not go together", "leave one of them out")
    # A dataset that is there may be the very same, and is then taken as it is.
    claim = nullcontext() if append or (out / shards.MANIFEST_NAME).is_file() else claimed(out)
    flags: dict[str, Any] = {"split": split, "validation": validation, "seed": seed}
    flags |= {"on_bad_record": on_bad_record, "drop_duplicates": drop_duplicates}
    if merge:
        also = {"tokenizer": tokenizer, "pairs": pairs, "weights": weights, "assignments": assignments}
        for name in (flag_of(one) for one, value in {**also, **flags}.items() if value not in (None, False)):
            raise UsageError(f"{name} says how to prepare, and --merge has it from the shares", f"leave {name} out")
        if not sources:
            raise UsageError("--merge names no shares", "name the folders that --shard has made, each once")
        with claim, reporting(terminal, json=json) as reporter:
            reporter.result(preparing.merge([Path(source) for source in sources], out))
        return
    if tokenizer is None and not append:
        raise UsageError("--tokenizer names none", "give a tokenizer.json or a run, as in --tokenizer runs/mine")
    settings = parse_assignments(assignments or [])
    for name in settings.keys() - {"data"}:
        problem = f"--set {name!r} is no setting of a dataset"
        raise UsageError(problem, "set keys that begin with data, such as data.columns")
    named: dict[str, Any] = {"source": sources[0] if len(sources) == 1 else sources}
    if weights is not None:
        named = {"sources": weighted_sources(sources, weights)}
    elif "sources" in settings.get("data", {}):
        if sources:
            problem = f"{shlex.join(sources)} and --set data.sources both name the text"
            raise UsageError(problem, "leave one of them out")
        named = {}
    elif not sources and "source" not in settings.get("data", {}):
        raise UsageError("No text is named", "name files, a folder, builtin:NAME or hf:owner/name")
    given = {key: value for key, value in flags.items() if value is not None}  # another one would take a --set away
    section = build_recipe(settings, {"data": {**named, **given}}).data
    if (workers > 1 or engine) and "-" in section.names:
        problem = f"{plural(workers, 'worker')} cannot read standard input"
        raise UsageError(problem, "write it to a file, or leave --workers out")
    share = None if shard is None else chunks.Share.of_text(shard)
    with claim, reporting(terminal, json=json) as reporter:
        division = open_split(section, "pairs" if pairs else "text")
        loaded = load_tokenizer(tokenizer or out)
        reporter(StageStarted("data", ", ".join(section.names)))

        def progress(documents: int, tokens: int) -> None:
            reporter(StageProgress("data", documents, tokens))

        if share is not None:
            preparing.prepare_share(division, loaded, out, share, progress)
            reporter.hint([["tfcli", "prepare", "SHARES", "--merge", "--out", "DIR"]])
        elif append:
            reporter.result(preparing.append(division, loaded, out, progress))
        else:
            by: dict[str, Any] = {"workers": workers, "origin": Origin(section, tokenizer or out)}
            by["ray"] = (address or "local") if engine else None
            reporter.result(preparing.prepare(division, loaded, out, progress=progress, **by))


cache_app = typer.Typer()
_DAY = 86400.0
_DAYS = "Remove what was not used for this many days."


@cache_app.command("list")
@command
def list_cache(terminal: Terminal, json: Json = False) -> None:
    """List what is in the cache, the last used first.

    Each prepared dataset and each trained tokenizer with its size, when it was
    last used, and what it was made from.

    Example:

      tfcli cache list
    """
    from tfcli.data import cache, view
    from tfcli.draw import numbers, tables
    from tfcli.files import cache_folder

    found = cache.entries()
    if json:
        for entry in found:
            terminal.json(tables.to_json(entry))
    elif found:
        terminal.show(view.CacheList(found))
    terminal.note(f"{numbers.short(sum(entry.size for entry in found), 'B')} in the cache {cache_folder()}")


@cache_app.command("prune")
@command
def prune_cache(
    terminal: Terminal,
    older_than: Annotated[float | None, typer.Option(metavar="DAYS", min=0, help=_DAYS, show_default=False)] = None,
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
    from tfcli.data import cache, view
    from tfcli.draw import numbers, tables

    if everything == (older_than is not None):
        problem = "Say what is to go" if older_than is None else "--all and --older-than are two answers"
        remedy = "`tfcli cache prune --older-than 30`, or `tfcli cache prune --all`; --dry-run shows it first"
        raise UsageError(problem, remedy)
    done = list(cache.prune((older_than or 0.0) * _DAY, dry_run=dry_run))
    gone = [entry for entry, kept in done if not kept]
    for entry, kept in done if json else ():
        terminal.json({**tables.to_json(entry), "removed": not kept and not dry_run, "left": kept or None})
    if gone and not json:
        terminal.show(view.CacheList(gone))
    for entry, kept in done:
        if kept:
            terminal.note(f"Left: {entry.path} ({numbers.short(entry.size, 'B')}), {kept}")
    terminal.note(f"{'Would free' if dry_run else 'Freed'} {numbers.short(sum(entry.size for entry in gone), 'B')}")
    if failed := [kept for _, kept in done if kept.startswith("cannot be")]:
        raise TfcliError(f"{len(failed)} of {len(done)} {failed[0]}", "see above, and remove them by hand")
