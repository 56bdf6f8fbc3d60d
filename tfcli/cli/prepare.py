"""``tfcli prepare``: text to a dataset of token ids on disk."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Json, TextSeed, command
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError

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
    from tfcli.cli.reporting import reporting
    from tfcli.corpora.split import open_division
    from tfcli.data.manifest import MANIFEST_NAME
    from tfcli.data.prepare import prepare as prepare_dataset
    from tfcli.files import claimed
    from tfcli.recipe.loading import build_recipe, parse_assignments
    from tfcli.records.pipeline import StageProgress, StageStarted
    from tfcli.tokenization.load import load_tokenizer

    names = sources[0] if len(sources) == 1 else sources
    given = {"source": names, "split": split, "validation": validation, "seed": seed}
    flags = {"data": {key: value for key, value in given.items() if value is not None}}
    settings = parse_assignments(assignments or [])
    for name in settings.keys() - {"data"}:
        raise UsageError(
            f"--set {name!r} is no setting of a dataset", "set keys that begin with data, such as data.columns"
        )
    section = build_recipe(settings, flags).data
    # A dataset that is there may be the very same, and is then taken as it is.
    claim = nullcontext() if (out / MANIFEST_NAME).is_file() else claimed(out)
    with claim, reporting(terminal, json=json) as reporter:
        division = open_division(section, "pairs" if pairs else "text")
        loaded = load_tokenizer(tokenizer)
        reporter(StageStarted("data", ", ".join(sources)))
        reporter.result(
            prepare_dataset(
                division,
                loaded,
                out,
                progress=lambda documents, tokens: reporter(StageProgress("data", documents, tokens)),
            )
        )
