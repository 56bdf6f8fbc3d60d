"""What translations are compared with: the text itself, where a tokenizer does not give all of it back."""

from tfcli.corpora.open import open_source
from tfcli.corpora.source import Pair
from tfcli.corpora.split import open_division
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import dataset_fingerprint
from tfcli.errors import TfcliError
from tfcli.pipeline.datasets import kind_of, prepared_folder
from tfcli.runs.load import LoadedRun


def original_targets(run: LoadedRun, data: PreparedDataset, sources: tuple[str, ...]) -> list[str] | None:
    """The targets of the part of `data` that is scored, in its order; None where they cannot be read again.

    Args:
        sources: where `data` came from; none: it is the run's own validation part.
    """
    section, kind = run.recipe.data, kind_of(run.recipe)
    try:
        if sources:
            documents = open_source(sources, kind, columns=section.columns).documents()
        elif prepared_folder(section) is not None or "-" in data.record().sources:
            return None
        else:
            division = open_division(section, kind)
            if dataset_fingerprint(division, run.tokenizer) != data.record().fingerprint:
                return None
            documents = division.only("validation")
        return [document.target for document in documents if isinstance(document, Pair)]
    except TfcliError:
        return None  # the sources are gone: scores are of the dataset, which is still there
