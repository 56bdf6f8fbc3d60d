"""Label checks: what training and evaluation ask for, against the text itself."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import PairsView, PreparedDataset
from tfcli.data.loader import Batches, CausalBatches, FittingPairs, MaskedBatches, PairBatches, build_batches
from tfcli.evaluation.measure import Totals, total_loss
from tfcli.records.evaluation import loss_unit
from tfcli.verification.check import RELATIVE, ROWS, Finding, ModelInputs, Skipped, VerifiedRun, at_most, predict, proof

_BATCHES = 8
_ROUNDING = 1e-5  # of a loss: probabilities are summed up in float32
_WORK = 1 << 31  # parameters times tokens scored in batches: a second of one core, and longer one by one
_ROWS = 8  # texts of a batch
_LIMIT = 1e-4  # nats per token that a loss may differ between batch sizes: rounding in float32 is a hundredth of it


@proof("labels")
def labels(subject: VerifiedRun) -> Finding:
    """What is to be predicted is the token that comes next; of a masked text, what was hidden and no more."""
    wrong, asked, rows = 0, 0, 0
    with subject.dataset() as data:
        batches, probability = _validation_batches(subject, data), subject.recipe(data).train.mask_probability
        texts = _texts(data, batches)
        for batch in islice(batches.whole(), _BATCHES):
            if isinstance(batches, PairBatches):
                wrong += _wrong_of_pairs(data.pairs("validation"), batch, batches.order[rows:])
            elif isinstance(batches, MaskedBatches):
                wrong += _wrong_of_masks(subject, next(texts), batch, probability)
            elif isinstance(batches, CausalBatches):
                wrong += _wrong_of_text(subject, next(texts), batch)
            else:
                raise Skipped(f"what {subject.run.recipe.objective} asks for is not the text as it stands")
            asked += batch.target_tokens
            rows += len(batch.labels)
    return at_most(wrong, 0, "labels", f"of {asked}")


@proof("loss")
@torch.inference_mode()
def loss(subject: VerifiedRun) -> Finding:
    """The loss of an evaluation is the mean of −ln p of every next token, each text read alone."""
    subject.require_head()
    if subject.run.recipe.objective == "prefix":
        raise Skipped("it reads a part of each window both ways")
    with subject.dataset() as data:
        batches = _validation_batches(subject, data)
        batch, texts = next(batches.whole()), next(_texts(data, batches), [])
    found = total_loss(subject.model, [batch], subject.run.device).loss
    nats = [one for row in range(len(batch.labels)) for one in _nats(subject, texts, batch, row)]
    expected, limit = sum(nats) / len(nats), max(_ROUNDING, subject.limit)
    return at_most(abs(found / expected - 1), limit, RELATIVE, f"{found:.6g} nats per token, and not {expected:.6g}")


def _validation_batches(subject: VerifiedRun, data: PreparedDataset, rows: int = ROWS, longest: int = 0) -> Batches:
    """Of the validation part; where they are windows of a text, of `longest` tokens at most (0: the subject's)."""
    recipe = subject.recipe(data)
    context = recipe.context if recipe.reads_pairs else min(recipe.context, longest or subject.longest)
    train = replace(recipe.train, context=context, batch_size=rows, batch_tokens=None)
    return build_batches(replace(recipe, train=train), data, "validation", subject.roles)


def _texts(data: PreparedDataset, batches: Batches) -> Iterator[list[NDArray[np.int64]]]:
    """The ids of each row's window in the dataset, by batch, of next tokens with the one behind; of pairs, nothing."""
    if isinstance(batches, FittingPairs):
        return
    view, behind = data.text("validation"), int(isinstance(batches, CausalBatches))
    for spans in batches.spans():
        ends = spans.lengths + behind
        yield [row[:end] for row, end in zip(view.padded(spans.starts, ends, 0), ends, strict=True)]


def _wrong_of_text(subject: VerifiedRun, texts: list[NDArray[np.int64]], batch: Batch) -> int:
    """Inputs that are not the dataset's, and labels that are not what follows there. The begin token is no news."""
    wrong = 0
    for inputs, asked, text in zip(batch.input_ids, batch.labels, texts, strict=True):
        length, wanted = len(text) - 1, np.full_like(asked, IGNORED)
        wanted[:length] = np.where(_is_news(subject, text), text[1:], IGNORED)
        wrong += int(np.count_nonzero(inputs[:length] != text[:-1]) + np.count_nonzero(asked != wanted))
    return wrong


def _is_news(subject: VerifiedRun, tokens: NDArray[np.int64]) -> list[bool]:
    """Of every token but the first: neither begins texts, nor is an end behind an end."""
    roles = subject.roles
    begins, ends = set(roles.text_prefix).difference(roles.end), roles.end if roles.text_start is not None else ()
    return [b not in begins and not (a == b and b in ends) for a, b in pairwise(tokens.tolist())]


def _wrong_of_masks(subject: VerifiedRun, texts: list[NDArray[np.int64]], batch: Batch, probability: float) -> int:
    """Tokens that are not the dataset's, where they are read or asked for; masks that nothing is asked for, special
    tokens that are, and labels beyond twice the share that was wanted."""
    asked = batch.labels != IGNORED
    silent = np.count_nonzero((batch.input_ids == subject.roles.mask) & ~asked)
    special = np.count_nonzero(np.isin(batch.labels[asked], subject.roles.ids()))
    wanted = 2 * probability * batch.tokens + len(batch.labels)
    found = np.where(asked, batch.labels, batch.input_ids)
    foreign = sum(np.count_nonzero(row[: len(text)] != text) for row, text in zip(found, texts, strict=True))
    return int(silent + special + foreign + max(0, asked.sum() - wanted))


def _wrong_of_pairs(pairs: PairsView, batch: Batch, numbers: NDArray[np.int64]) -> int:
    """Places where a row is not the dataset's pair, its target read from the first token, asked from the second."""
    assert batch.decoder_input_ids is not None and batch.padding_mask is not None
    wrong = 0
    for row, number in enumerate(numbers[: len(batch.labels)]):
        source, target = pairs.source.sequence(number), pairs.target.sequence(number)
        width = batch.labels.shape[1] - len(target) + 1
        found_and_wanted = (
            (batch.input_ids[row][batch.padding_mask[row]], source),
            (batch.decoder_input_ids[row, : len(target) - 1], target[:-1]),
            (batch.labels[row], np.pad(target[1:], (0, width), constant_values=IGNORED)),
        )
        wrong += sum(int(np.count_nonzero(found != wanted)) for found, wanted in found_and_wanted)
    return wrong


def _nats(subject: VerifiedRun, texts: list[NDArray[np.int64]], batch: Batch, row: int) -> Iterator[float]:
    """−ln p of everything that one row is asked for, read alone."""
    one, device = _alone(batch, row), subject.run.device
    inputs = torch.from_numpy(one.input_ids).to(device)
    if one.decoder_input_ids is not None:
        read = ModelInputs(torch.from_numpy(one.decoder_input_ids).to(device), inputs)
        after = [*one.decoder_input_ids[0, 1:], subject.roles.eos]
    else:
        read = ModelInputs(inputs)
        is_asked = subject.run.recipe.objective != "clm"
        after = [*(one.labels[0] if is_asked else np.where(_is_news(subject, texts[row]), texts[row][1:], IGNORED))]
    scores = predict(subject.model, read)[0].cpu().double().log_softmax(-1)
    yield from (-float(scores[place, token]) for place, token in enumerate(after) if token != IGNORED)


@proof("evaluation twice")
def evaluation_twice(subject: VerifiedRun) -> Iterator[Finding]:
    """Evaluating again gives the same loss to the last bit, even in the middle of a training."""
    model, batches = subject.run.model, _batches(subject)
    first = _scored(subject, batches)
    model.train()
    try:
        again, goes_on = _scored(subject, batches), model.training
    finally:
        model.eval()
    gap = abs(first.nats - again.nats) / first.tokens
    yield at_most(gap, 0, loss_unit(subject.run.recipe.objective), "in training mode it scores otherwise")
    yield at_most(abs(first.correct - again.correct), 0, "tokens", "another number of predictions is right")
    yield at_most(not goes_on, 0, "models", "training does not go on in training mode")


@proof("evaluation by batches")
def evaluation_by_batches(subject: VerifiedRun) -> Finding:
    """The loss of texts in one batch is that of the same texts one by one."""
    together = _scored(subject, batches := _batches(subject))
    rows = [(batch, row) for batch in batches for row, asked in enumerate(batch.labels != IGNORED) if asked.any()]
    alone = _scored(subject, [_alone(*one) for one in rows])
    gap = abs(together.loss - alone.loss) if together.tokens == alone.tokens else float("nan")
    where = f"loss {together.loss:.6f} in batches, and {alone.loss:.6f} one by one"
    return at_most(gap, _LIMIT, loss_unit(subject.run.recipe.objective), where)


def _batches(subject: VerifiedRun) -> Sequence[Batch]:
    """Of the validation part, as much as is affordable, and one batch at least."""
    subject.require_head()
    affordable = max(64, _WORK // subject.run.model.num_parameters())
    chosen: list[Batch] = []
    with subject.dataset() as data:
        batches = _validation_batches(subject, data, _ROWS, max(16, affordable // _ROWS)).whole()
        while sum(batch.places for batch in chosen) < affordable and (batch := next(batches, None)) is not None:
            chosen.append(batch)
    if not any(batch.target_tokens for batch in chosen):
        raise Skipped("its text has no token that could be scored: all are special or unknown")
    return chosen


def _scored(subject: VerifiedRun, batches: Iterable[Batch]) -> Totals:
    return total_loss(subject.run.model, batches, subject.run.device)


def _alone(batch: Batch, row: int) -> Batch:
    """A text of a batch without its padding."""
    one = batch.rows(slice(row, row + 1))
    if one.decoder_input_ids is None or one.padding_mask is None:
        return Batch(one.input_ids[:, : one.tokens], one.labels[:, : one.tokens], prefix=one.prefix)
    sources = slice(int(one.padding_mask.sum()))
    targets = slice(int(np.flatnonzero(one.labels != IGNORED).max()) + 1)
    sides = one.padding_mask[:, sources], one.decoder_input_ids[:, targets]
    return Batch(one.input_ids[:, sources], one.labels[:, targets], *sides)
