"""The text that one run is scored on, as another run's tokenizer writes it."""

from dataclasses import replace

from tfcli.corpora.source import Source
from tfcli.corpora.split import open_division, undivided
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import dataset_fingerprint
from tfcli.errors import UsageError
from tfcli.files import digest
from tfcli.pipeline.datasets import (
    Report,
    cached_dataset,
    dataset_for_evaluation,
    kind_of,
    prepared_folder,
)
from tfcli.runs.load import LoadedRun


def data_to_compare(
    run: LoadedRun, other: LoadedRun, data: PreparedDataset, sources: tuple[str, ...], report: Report
) -> PreparedDataset:
    """`data`, which `run` is scored on, for `other`: the same documents in the same order.

    Args:
        sources: where `data` came from; none: it is the run's own validation part.

    Raises:
        UsageError: the tokenizers differ, and the text cannot be read again.
    """
    if other.tokenizer.fingerprint == run.tokenizer.fingerprint:
        return data
    section = run.recipe.data
    if sources:
        return dataset_for_evaluation(replace(other, recipe=replace(other.recipe, data=section)), sources, report)
    if prepared_folder(section) is not None or "-" in data.record().sources:
        raise UsageError(
            f"The tokenizers of {run.directory.path} and {other.directory.path} differ, and the text is only there as "
            "the first one's tokens",
            "name a SOURCE that both can read",
        )
    division = open_division(section, kind_of(run.recipe))
    if dataset_fingerprint(division, run.tokenizer) != data.record().fingerprint:
        raise UsageError(
            f"The text of {', '.join(data.record().sources)} has changed since {run.directory.path} was trained on it",
            "restore it, or name a SOURCE",
        )
    held_out = Source(
        division.source.names,
        division.source.kind,
        lambda: division.only("validation"),
        lambda: digest("validation part", division.fingerprint),
    )
    return cached_dataset(undivided(held_out), other.tokenizer, report, "validation")


def notes_on_text(run: LoadedRun, other: LoadedRun, sources: tuple[str, ...]) -> tuple[str, ...]:
    """What to beware of where the text is the first run's validation part."""
    if sources or run.recipe.data == other.recipe.data:
        return ()
    return (f"{other.directory.path} was trained on other text, or divided it otherwise: it may know these documents.",)
