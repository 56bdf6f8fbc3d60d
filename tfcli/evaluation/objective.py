"""What each architecture is asked for: the logits at labelled positions, some tokens at a time.

The logits of 8,192 tokens over 50,257 words take 1.6 GB in float32, and their softmax as much again.

Shape legend: B batch, S source length, T target length, D model, N labelled positions of the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.models.transformer import Transformer

AT_A_TIME = {"cpu": 256}
"""Tokens whose logits are held at a time, by device: a CPU is fastest so, whatever the vocabulary (measured, by 10 to
30 %), for the matrix is still read seldom and the logits soon again."""

_AT_MOST = 2048
"""The same for GPUs, which are slowed by many small products."""


@dataclass(frozen=True)
class Target:
    """Predictions of some tokens, and the tokens that were right; `IGNORED` where there is nothing to predict.

    Shape:
        logits: (N, Vocab)
        labels: (N,)
    """

    logits: Tensor
    labels: Tensor


def targets_of(model: Transformer, batch: Batch, device: torch.device) -> Iterator[Target]:
    """The logits of a batch at its labelled positions, in order. clm, seq2seq and mlm differ in their labels alone."""
    hidden, labels = labelled_hidden(model, batch, device)
    size = AT_A_TIME.get(device.type, _AT_MOST)
    for some, their_labels in zip(hidden.split(size), labels.split(size), strict=True):
        yield Target(model.head(some), their_labels)


def scores_of_labels(model: Transformer, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Of each labelled position of a batch −log p of the right token, whether that was the likeliest, and the label:
    0 and False where it is `IGNORED`.

    Shape:
        returns: (N,) float32, (N,) and (N,)
    """
    nats, correct, labels = [], [], []
    for target in targets_of(model, batch, device):
        nats.append(F.cross_entropy(target.logits.float(), target.labels, reduction="none"))
        correct.append(target.logits.argmax(-1) == target.labels)
        labels.append(target.labels)
    return torch.cat(nats), torch.cat(correct), torch.cat(labels)


def labelled_hidden(model: Transformer, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The last vectors of a batch and their labels, without those that have none where that pays: a masked model
    predicts one token in seven, and the logits of the others would be most of the work.

    Shape:
        returns: (N, D) and (N,)
    """
    labels = _on(batch.labels, device)
    inputs = [_on(batch.input_ids, device)]
    if batch.decoder_input_ids is not None:
        inputs.append(_on(batch.decoder_input_ids, device))
    padding_mask = None if batch.padding_mask is None else _on(batch.padding_mask, device)
    hidden = model.hidden(*inputs, padding_mask)
    if 2 * batch.target_tokens > batch.labels.size:
        return hidden.flatten(0, 1), labels.flatten()
    # The places are found where the batch was made: the device need not be waited for.
    places = _on(np.flatnonzero(batch.labels != IGNORED), device)
    return hidden.flatten(0, 1)[places], labels.flatten()[places]


def _on(array: object, device: torch.device) -> Tensor:
    tensor = torch.as_tensor(array)
    if device.type == "cuda" and type(tensor) is Tensor:  # the tensors of a rehearsal have no memory to pin
        # From other memory than pinned one, a copy to a GPU waits for all that the GPU has still to do.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
