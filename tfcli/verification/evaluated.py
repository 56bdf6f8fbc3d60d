"""Evaluation checks: one number, whoever asks, however often, and however the texts are batched."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tfcli.data.batch import IGNORED, Batch
from tfcli.evaluation.batches import build_batches
from tfcli.evaluation.loss import Totals, total_loss
from tfcli.verification.check import Finding, Skipped, at_most, proof
from tfcli.verification.material import dataset, recipe_of, require_head
from tfcli.verification.subject import VerifiedRun

_WORK = 1 << 31
"""Parameters times tokens scored in batches: a second of one core, and longer one by one."""

_ROWS = 8
"""Texts of a batch."""

_LIMIT = 1e-4
"""How far a loss may differ between batch sizes, in nats a token: rounding in float32 is a hundredth of it."""


@proof("evaluation twice", "Evaluating again gives the same loss to the last bit, even in the middle of a training.")
def evaluation_twice(subject: VerifiedRun) -> Iterator[Finding]:
    """Once as loaded, and once from a model in training mode, which has to be in it again afterwards."""
    model = subject.run.model
    batches = _batches(subject)
    first = _scored(subject, batches)
    model.train()
    try:
        again = _scored(subject, batches)
        goes_on = model.training
    finally:
        model.eval()
    gap = abs(first.nats - again.nats) / first.tokens
    yield at_most(gap, 0, "nats a token", "in training mode it scores otherwise")
    yield at_most(abs(first.correct - again.correct), 0, "tokens", "another number of predictions is right")
    yield at_most(not goes_on, 0, "models", "training does not go on in training mode")


@proof("evaluation by batches", "The loss of texts in one batch is that of the same texts one by one.")
def evaluation_by_batches(subject: VerifiedRun) -> Finding:
    """Padding has no part in the loss, and a token counts the same wherever it stands."""
    batches = _batches(subject)
    together = _scored(subject, batches)
    alone = _scored(subject, [row for batch in batches for row in _rows(batch)])
    gap = abs(together.loss - alone.loss) if together.tokens == alone.tokens else float("nan")
    return at_most(gap, _LIMIT, "nats a token", f"loss {together.loss:.6f} in batches, and {alone.loss:.6f} one by one")


def _batches(subject: VerifiedRun) -> Sequence[Batch]:
    """Of the validation part, as much as is affordable, and one batch at least."""
    run = subject.run
    require_head(run)
    affordable = max(64, _WORK // run.model.num_parameters())
    with dataset(subject) as data:
        recipe = recipe_of(run, data)
        context = recipe.train.context or run.config.model.max_seq_len
        if run.architecture != "encoder-decoder":
            context = min(context, max(16, affordable // _ROWS))
        train = replace(recipe.train, context=context, batch_size=_ROWS, batch_tokens=None)
        batches = build_batches(replace(recipe, train=train), data, "validation", run.config.roles)
        chosen = list(_up_to(batches.whole(), affordable))
    if not any(batch.target_tokens for batch in chosen):
        raise Skipped("its text has no token that could be scored: all are special or unknown")
    return chosen


def _up_to(batches: Iterable[Batch], tokens: int) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        tokens -= batch.places
        if tokens <= 0:
            return


def _scored(subject: VerifiedRun, batches: Iterable[Batch]) -> Totals:
    return total_loss(subject.run.model, batches, subject.run.device)


def _rows(batch: Batch) -> Iterator[Batch]:
    """Each text by itself, without padding."""
    for row in range(len(batch.input_ids)):
        one = batch.rows(slice(row, row + 1))
        if one.target_tokens:
            yield _without_padding(one)


def _without_padding(one: Batch) -> Batch:
    if one.decoder_input_ids is not None:
        assert one.padding_mask is not None
        source, target = int(one.padding_mask.sum()), int(np.flatnonzero(one.labels != IGNORED).max()) + 1
        return Batch(
            one.input_ids[:, :source],
            one.labels[:, :target],
            one.padding_mask[:, :source],
            one.decoder_input_ids[:, :target],
        )
    length = one.tokens
    return Batch(one.input_ids[:, :length], one.labels[:, :length])
