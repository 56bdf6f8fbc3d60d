"""Evaluation checks: one number, whoever asks, however often, and however the texts are batched."""

from collections.abc import Iterable, Iterator, Sequence

from tfcli.data.batch import Batch
from tfcli.evaluation.loss import Totals, total_loss
from tfcli.verification.check import Finding, Skipped, at_most, proof
from tfcli.verification.material import dataset, require_head, unpadded, validation_batches
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
        chosen = list(
            _up_to(validation_batches(subject, data, _ROWS, max(16, affordable // _ROWS)).whole(), affordable)
        )
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
        if (one := batch.rows(slice(row, row + 1))).target_tokens:
            yield unpadded(one)
