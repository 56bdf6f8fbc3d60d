"""Cross-entropy of causal, masked and sequence-to-sequence (seq2seq) models: the logits at labelled positions. Shape
legend: B batch, S source length, T target length, D model, N labelled positions of the batch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.models.transformer import Transformer

# Tokens whose logits are held at a time: a CPU is 10 to 30 % faster so, whatever the vocabulary (measured).
AT_A_TIME = {"cpu": 256}
_AT_MOST = 2048  # the same for GPUs, which are slowed by many small products


class Target(NamedTuple):
    """Predictions of some tokens, (N, Vocab), and the tokens that were right, (N,), `IGNORED` where there is none."""

    logits: Tensor
    labels: Tensor


def targets_of(model: Transformer, batch: Batch, device: torch.device) -> Iterator[Target]:
    """The logits of a batch at its labelled positions, in order. clm, seq2seq, mlm and a task's labels differ in these
    alone. Of spans, the logits are those of all places: a row for the first token, and one for the last (2B, S)."""
    if batch.answerable is not None:
        found = model.head(_hidden(model, batch, device)).float()
        outside = ~_on(batch.answerable, device)[..., None]
        yield Target(found.masked_fill(outside, -torch.inf).mT.flatten(0, 1), _on(batch.labels, device).flatten())
        return
    hidden, labels = labelled_hidden(model, batch, device)
    size = AT_A_TIME.get(device.type, _AT_MOST)
    for some, their_labels in zip(hidden.split(size), labels.split(size), strict=True):
        yield Target(model.head(some), their_labels)


def best_spans(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable first and last token, (B, 2), p(first) · p(last) with first ≤ last (Devlin et al. 2019, section
    4.2), and that product over the sum of all such, (B,). The logits, (2B, S), have a row for either of each text."""
    first, last = logits.log_softmax(-1).unflatten(0, (-1, 2)).unbind(1)
    size = first.shape[-1]
    before = torch.ones(size, size, dtype=torch.bool, device=logits.device).tril(-1)
    best = (first[:, :, None] + last[:, None, :]).masked_fill(before, -torch.inf).flatten(1).softmax(-1).max(-1)
    return torch.stack([best.indices // size, best.indices % size], -1), best.values


class LabelScores(NamedTuple):
    """Of each labelled position, (N,), −log p of the right token, whether that was the likeliest, the label, and the
    probability of the ids that no token has: 0 and False where the label is `IGNORED`."""

    nats: Tensor
    correct: Tensor
    labels: Tensor
    nameless: Tensor


def scores_of_labels(
    model: Transformer, batch: Batch, device: torch.device, nameless: Sequence[int] = ()
) -> LabelScores:
    """Score a batch in float32. The `nameless` ids, which no token has, are in the softmax as the others are."""
    scores = []
    for logits, labels in targets_of(model, batch, device):
        logits, absent = logits.float(), labels == IGNORED
        nats = F.cross_entropy(logits, labels, reduction="none")
        share = logits.softmax(-1)[:, nameless].sum(-1).masked_fill(absent, 0) if nameless else torch.zeros_like(nats)
        scores.append(LabelScores(nats, logits.argmax(-1) == labels, labels, share))
    return LabelScores(*map(torch.cat, zip(*scores, strict=True)))


def labelled_hidden(model: Transformer, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The last vectors of a batch, (N, D), and their labels, (N,), without those that have none where that pays: a
    masked model predicts one token in seven, and the logits of the others would be most of the work."""
    labels, hidden = _on(batch.labels, device).flatten(), _hidden(model, batch, device).flatten(0, 1)
    if 2 * batch.target_tokens > batch.labels.size:
        return hidden, labels
    # The places are found where the batch was made: the device need not be waited for.
    places = _on(np.flatnonzero(batch.labels != IGNORED), device)
    return hidden[places], labels[places]


def _hidden(model: Transformer, batch: Batch, device: torch.device) -> Tensor:
    sides = [_on(side, device) for side in (batch.input_ids, batch.decoder_input_ids) if side is not None]
    masks = {name: getattr(batch, name) for name in ("padding_mask", "document_starts", "prefix")}
    return model.hidden(*sides, **{name: _on(array, device) for name, array in masks.items() if array is not None})


def _on(array: object, device: torch.device) -> Tensor:
    tensor = torch.as_tensor(array)
    if device.type == "cuda" and type(tensor) is Tensor:  # those of a memory estimate have nothing to pin
        # From other memory than pinned one, a copy to a GPU waits for all that the GPU has still to do.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
