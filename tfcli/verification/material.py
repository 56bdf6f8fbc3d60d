"""Text for checks: what they train on and score: its own dataset and recipe, or made-up ones where it has none here.

Made-up documents are random words of the run's own vocabulary, prepared as any corpus is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tfcli.corpora.source import Document, Kind, Pair, Source
from tfcli.corpora.split import TrainValidationSplit
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import PreparedDataset
from tfcli.data.loader import Batches, build_batches
from tfcli.data.prepare import prepare
from tfcli.files import digest
from tfcli.processes import temporary_folder
from tfcli.recipe.recipe import OriginSection, Recipe
from tfcli.runs.load import LoadedRun
from tfcli.training.job import decide
from tfcli.verification.check import Skipped
from tfcli.verification.subject import VerifiedRun

_DOCUMENTS = 48
_LONGEST = 40  # tokens of a document, or of a side of a pair


@contextmanager
def dataset(subject: VerifiedRun) -> Iterator[PreparedDataset]:
    """The run's own dataset where it is there; else a made-up one, in a folder that goes afterwards."""
    if subject.data is not None:
        yield subject.data
        return
    with temporary_folder() as folder:
        path = folder / "dataset"
        training, validation = (_source(subject, seed) for seed in (1, 2))
        prepare(TrainValidationSplit(training, "file", 0.5, validation=validation), subject.run.tokenizer, path)
        yield PreparedDataset.open(path)


def require_head(run: LoadedRun) -> None:
    """Skip a check of a run that predicts nothing."""
    if run.config.model.head == "none":
        raise Skipped("the run has no head that predicts tokens")


def recipe_of(run: LoadedRun, data: PreparedDataset) -> Recipe:
    """The run's recipe; of an imported one, the default training of its model where the model is."""
    if not run.recipe.is_imported:
        return run.recipe
    train = replace(run.recipe.train, device=run.device.type)  # type: ignore[arg-type]
    return decide(replace(run.recipe, origin=OriginSection(), train=train), run.tokenizer, data)


def validation_batches(subject: VerifiedRun, data: PreparedDataset, rows: int, longest: int) -> Batches:
    """Batches of the validation part; where they are windows of a text, of `longest` tokens at most."""
    recipe = recipe_of(subject.run, data)
    context = recipe.context
    if subject.run.architecture != "encoder-decoder":
        context = min(context, longest)
    train = replace(recipe.train, context=context, batch_size=rows, batch_tokens=None)
    return build_batches(replace(recipe, train=train), data, "validation", subject.roles)


def unpadded(one: Batch) -> Batch:
    """A batch of one text without its padding."""
    length = one.tokens
    if one.decoder_input_ids is not None and one.padding_mask is not None:
        length, target = int(one.padding_mask.sum()), int(np.flatnonzero(one.labels != IGNORED).max()) + 1
        return Batch(
            one.input_ids[:, :length],
            one.labels[:, :target],
            one.padding_mask[:, :length],
            one.decoder_input_ids[:, :target],
        )
    return Batch(one.input_ids[:, :length], one.labels[:, :length])


def _source(subject: VerifiedRun, seed: int) -> Source:
    pairs = subject.run.architecture == "encoder-decoder"
    kind: Kind = "pairs" if pairs else "text"
    draw = np.random.default_rng(seed)
    longest = max(2, min(_LONGEST, subject.run.config.model.max_seq_len // 2 - 2))

    def text() -> str:
        ids = draw.choice(subject.ordinary, int(draw.integers(2, longest + 1)))
        return subject.run.tokenizer.decode(ids) or "a"

    documents: list[Document] = [Pair(text(), text()) if pairs else text() for _ in range(_DOCUMENTS)]
    return Source(("made-up text",), kind, lambda: iter(documents), lambda: digest("made up", seed))
