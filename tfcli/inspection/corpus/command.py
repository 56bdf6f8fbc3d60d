"""``tfcli data report``: a corpus in numbers before anything is trained on it."""

from pathlib import Path
from typing import Annotated

import typer

from tfcli.console.options import Outputs, TextSeed, command, present
from tfcli.console.settings import usual
from tfcli.console.terminal import Terminal
from tfcli.data.command import Sources
from tfcli.errors import UsageError

data_app = typer.Typer()
_MAY = "data.columns, header, separator, on_bad_record or max_documents"
_SET = typer.Option("--set", metavar="KEY=VALUE", help=f"Set {_MAY} (of each source).", show_default=False)


@data_app.callback()
def _group() -> None:
    """One command is a group, too."""


@data_app.command("report")
@command
def report(
    terminal: Terminal,
    outputs: Outputs,
    sources: Sources,
    *,
    tokenizer: Annotated[Path | None, usual("none", "Whose tokens to count.", metavar="FILE|RUN")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="The sources are pairs of sentences.")] = False,
    near: Annotated[bool, typer.Option("--near", help="Look for near-duplicates, too; needs the extra dedup.")] = False,
    ngram: Annotated[int, typer.Option(metavar="N", min=1, max=20, help="Words of the n-grams.")] = 3,
    assignments: Annotated[list[str] | None, _SET] = None,
    seed: TextSeed = None,
) -> None:
    """Show what is in a corpus: size, lengths, duplicates, n-grams, sources.

    Read once, in little memory, whatever its size.

    Examples:

      tfcli data report books/*.txt
      tfcli data report web.jsonl wiki.jsonl --tokenizer tokenizer.json --near
      tfcli data report train.tsv --pairs --html corpus.html
    """
    from tfcli.inspection.corpus import compute, view
    from tfcli.recipe.loading import build_recipe, parse_assignments
    from tfcli.tokenization.tokenizer import load_tokenizer

    settings = parse_assignments(assignments or [])
    read = {"columns", "header", "max_documents", "seed", "separator", "on_bad_record"}
    for name in [*(settings.keys() - {"data"}), *(f"data.{key}" for key in settings.get("data", {}).keys() - read)]:
        raise UsageError(f"--set {name!r} says nothing about what is read", f"set {_MAY}")
    section = build_recipe(settings, {"data": {} if seed is None else {"seed": seed}}).data
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    kind = "pairs" if pairs else "text"
    with terminal.progress() as tell:
        made = compute.corpus_report(sources, kind, section, loaded, ngram=ngram, near=near, tell=tell)  # type: ignore[arg-type]
    present(terminal, outputs, view.CorpusReportView(made), made, view.corpus_table)
