"""What each architecture is asked for: the logits at labelled positions.

Shape legend: B batch, S source length, T target length, D model, N labelled positions of the batch.
"""

from dataclasses import dataclass

import numpy as np
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
    """The logits of a batch at its labelled positions. clm, seq2seq and mlm differ in their labels alone."""
    hidden, labels = labelled_hidden(model, batch, device)
    return Target(model.head(hidden), labels)


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
