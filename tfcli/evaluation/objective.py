"""What each architecture is asked for: the logits at labelled positions.

Shape legend: B batch, S source length, T target length, D model, N labelled positions of the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.data.batch import IGNORED, Batch
from tfcli.models.transformer import Transformer


@dataclass(frozen=True)
class Target:
    """Predictions and the tokens that were right; `IGNORED` where there is nothing to predict.

    Shape:
        logits: (N, Vocab)
        labels: (N,)
    """

    logits: Tensor
    labels: Tensor


def target_of(model: Transformer, batch: Batch, device: torch.device) -> Target:
    """Run the model on a batch, and its head where it pays: a masked model predicts one token in seven, and the logits
    of the others would be most of the work. clm, seq2seq and mlm differ in their labels alone."""
    labels = _on(batch.labels, device)
    inputs = [_on(batch.input_ids, device)]
    if batch.decoder_input_ids is not None:
        inputs.append(_on(batch.decoder_input_ids, device))
    padding_mask = None if batch.padding_mask is None else _on(batch.padding_mask, device)
    hidden = model.hidden(*inputs, padding_mask)
    if 2 * batch.target_tokens > batch.labels.size:
        return Target(model.head(hidden.flatten(0, 1)), labels.flatten())
    labelled = labels != IGNORED
    return Target(model.head(hidden[labelled]), labels[labelled])


def _on(array: object, device: torch.device) -> Tensor:
    return torch.as_tensor(array).to(device, non_blocking=True)
