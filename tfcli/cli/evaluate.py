"""``tfcli evaluate``: scores on a whole set."""

from typing import Annotated

import typer

from tfcli.cli.options import Checkpoint, Device, Json, Run, Threads, command, use_threads
from tfcli.cli.terminal import Terminal

Sources = Annotated[
    list[str] | None,
    typer.Argument(metavar="SOURCE", help="Other text.", show_default="the run's own validation split"),
]


@command
def evaluate(
    terminal: Terminal,
    run: Run,
    sources: Sources = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Score a run: loss, perplexity, bits per byte; BLEU of translations.

    Without a SOURCE, the whole of the run's own validation split is scored.
    An encoder is scored on masked tokens; translations get chrF and exact
    matches too.

    Examples:

      tfcli evaluate runs/decoder-1
      tfcli evaluate runs/decoder-1 other.txt --json
    """
    from tfcli.cli.reporting import reporting
    from tfcli.evaluation.evaluate import evaluate as score
    from tfcli.models.head import require_head
    from tfcli.pipeline.datasets import dataset_for_evaluation, dataset_of_run
    from tfcli.runs.load import load_run
    from tfcli.training.precision import choose_device

    use_threads(threads)
    with reporting(terminal, json=json) as reporter:
        loaded = load_run(run, checkpoint, choose_device(device))
        require_head(loaded.config.model)
        if sources:
            data = dataset_for_evaluation(loaded, tuple(sources), reporter)
        else:
            data = dataset_of_run(loaded.directory, loaded.recipe, reporter)
        reporter.result(score(loaded, data))
