"""``tfcli evaluate``: scores on a whole set."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.console.options import Checkpoint, Device, Json, Run, Threads, command, open_run, use_threads
from tfcli.console.settings import evaluation_settings, usual
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.generation.command import Precision

if TYPE_CHECKING:
    from tfcli.runs.load import LoadedRun

_SOURCE = typer.Argument(metavar="SOURCE", help="Other text.", show_default="the run's own validation split")
Sources = Annotated[list[str] | None, _SOURCE]
_STRIDE = "Slide a decoder's window by N tokens and score those that are new."
_WINDOWS = "What is read at a time: a document, or all text in a row."
Stride = Annotated[int | None, usual("the context: windows side by side", _STRIDE, min=1, metavar="N")]
Windows = Annotated[Literal["documents", "stream"] | None, usual("as in training; imported: documents", _WINDOWS)]
Context = Annotated[int | None, usual("as in training", "Tokens read at a time.", min=1, metavar="N")]
Pseudo = Annotated[bool, typer.Option("--pseudo", help="Pseudo-perplexity of an encoder: each token masked alone.")]
Beam = Annotated[int | None, usual("the run's own", "Beams to translate with; 1: greedy.", min=1)]
_WRITE = "Write the {}, one a line; what is there is replaced."
Outputs = Annotated[Path | None, typer.Option(metavar="FILE", help=_WRITE.format("translations"))]
References = Annotated[Path | None, typer.Option(metavar="FILE", help=_WRITE.format("references"))]
_SET = "Set evaluate.bleu_tokenize, or how a SOURCE is read, such as data.columns."
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET)]
Compare = Annotated[Path | None, typer.Option(metavar="RUN2", help="Score another run on the same text, test both.")]
_MEANT_FOR = {"stride": "decoder", "pseudo": "encoder"}
_MEANT_FOR |= dict.fromkeys(("beam", "outputs", "references"), "encoder-decoder")


@command
def evaluate(
    terminal: Terminal,
    run: Run,
    sources: Sources = None,
    stride: Stride = None,
    windows: Windows = None,
    context: Context = None,
    pseudo: Pseudo = False,
    beam: Beam = None,
    compare: Compare = None,
    assignments: Assignments = None,
    outputs: Outputs = None,
    references: References = None,
    checkpoint: Checkpoint = "best",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Score a run: loss, perplexity, bits per byte; BLEU of translations.

    Without a SOURCE, the whole of the run's own validation split is scored.
    An encoder is scored on masked tokens; translations get chrF and exact
    matches too; BLEU of Chinese, Japanese or Thai counts characters.
    Each score comes with its 95 % interval.

    Examples:

      tfcli evaluate runs/decoder-1
      tfcli evaluate runs/decoder-1 other.txt --stride 32 --json
      tfcli evaluate runs/decoder-1 --compare runs/decoder-2
      tfcli evaluate runs/decoder-1 --precision int8 --compare runs/decoder-1
      tfcli evaluate runs/translator --set evaluate.bleu_tokenize=char
    """
    arguments = dict(locals())
    names = tuple(sources or ())
    read, bleu_tokenize = evaluation_settings(assignments or [])
    if read and not names:
        problem = f"--set data.{next(iter(read))} is for other text, and the run's own validation split is scored"
        raise UsageError(problem, "name a SOURCE, or leave it out")
    _require_places(outputs, references, names)
    from dataclasses import replace

    from tfcli.addresses import AddressNeeded
    from tfcli.console.reporting import reporting
    from tfcli.evaluation.bleu_tokenization import require_bleu_tokenize
    from tfcli.evaluation.evaluate import compared, require_comparable, scores_of
    from tfcli.evaluation.measure import measure, read_as_asked
    from tfcli.evaluation.windows import EvaluationSettings
    from tfcli.models.head import require_head
    from tfcli.outputs import write_output
    from tfcli.pipeline import datasets
    from tfcli.runs.load import load_run

    use_threads(threads, measured=True)
    settings = EvaluationSettings(
        stride=stride,
        windows=windows,
        context=context,
        pseudo=pseudo,
        beam=beam,
        bleu_tokenize=bleu_tokenize,
    )
    with reporting(terminal, json=json) as reporter:
        loaded = open_run(run, checkpoint, device, precision)
        if loaded.recipe.train.task is None:
            require_head(loaded.config.model)
        _require_meaning(loaded, arguments)
        if loaded.recipe.objective == "seq2seq":
            require_bleu_tokenize(bleu_tokenize or loaded.recipe.evaluate.bleu_tokenize)
        elif bleu_tokenize is not None:
            problem = f"evaluate.bleu_tokenize is for an encoder-decoder, and {run} does not translate"
            raise UsageError(problem, "leave it out")
        read_as_asked(loaded, settings)
        if read:
            section = replace(loaded.recipe.data, **read)
            loaded = replace(loaded, recipe=replace(loaded.recipe, data=section))
        other = None if compare is None else load_run(compare, device=loaded.device, precision="float32")
        if other is not None:
            require_comparable(loaded, other)
            read_as_asked(other, settings)
        if names:
            data = datasets.dataset_for_evaluation(loaded, names, reporter)
        else:
            try:
                data = datasets.dataset_of_run(loaded.directory, loaded.recipe, reporter)
            except AddressNeeded as error:
                raise error.with_details(command=["tfcli", "evaluate", str(run), *error.names]) from error
        if loaded.recipe.objective == "seq2seq":
            terminal.note(f"Translating {len(data.pairs('validation')):,} pairs …")
        measured = measure(loaded, data, settings, reporter, targets=lambda: datasets.original_targets(loaded, names))
        for name, path in (("outputs", outputs), ("references", references)):
            if path is not None:
                write_output(path, f"--{name}", "".join(f"{line}\n" for line in getattr(measured.translated, name)))
        if other is None:
            scores = scores_of(measured)
        else:
            try:
                same = datasets.data_to_compare(loaded, other, data, names, reporter)
            except AddressNeeded as error:
                command = ["tfcli", "evaluate", str(run), *error.names, "--compare", str(compare)]
                raise error.with_details(command=command) from error
            again = measure(other, same, settings, reporter, like=measured)
            scores = compared(measured, again, datasets.notes_on_text(loaded, other, names))
        if names:
            scores = replace(scores, part="whole")
        elif (validation := loaded.recipe.data.validation) is not None:
            scores = replace(scores, sources=(validation,))
        reporter.result(scores)


def _require_places(outputs: Path | None, references: Path | None, sources: tuple[str, ...]) -> None:
    """Refuse files that cannot be written, and those that hold what is read or written otherwise."""
    from tfcli.console.settings import require_sources
    from tfcli.errors import Misnamed
    from tfcli.outputs import reading_from, require_output
    from tfcli.runs.directory import is_run

    for source in sources:
        if is_run(Path(source)):
            raise Misnamed(f"{source!r} is a run, not a text", "use --compare", source, f"--compare={source}")
        reading_from(source)
    require_sources(sources)
    for path, option in ((outputs, "--outputs"), (references, "--references")):
        if path is not None:
            require_output(path, option)


def _require_meaning(run: "LoadedRun", given: Mapping[str, object]) -> None:
    """Refuse an option that says nothing to this run's architecture."""
    path, own, objective = run.directory.path, run.architecture, run.recipe.objective
    for name in filter(given.get, _MEANT_FOR):
        problem = ""
        if (architecture := _MEANT_FOR[name]) != own:
            problem = f"is for {_a(architecture)}, and {path} holds {_a(own)}"
        elif run.recipe.train.task is not None:
            problem = "is for a run that predicts tokens, and this one tells labels"
        elif own == "encoder-decoder" and objective != "seq2seq":
            problem = f"is for translations, and {path} was trained for {objective}"
        if problem:
            raise UsageError(f"--{name.replace('_', '-')} {problem}", "leave it out")


def _a(architecture: str) -> str:
    return f"{'a' if architecture == 'decoder' else 'an'} {architecture}"
