"""One optimizer update."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tfcli.data.batch import Batch


def optimizer_step(
    objective: nn.Module,
    optimizers: Sequence[Optimizer],
    batches: Sequence[Batch],
    *,
    share_of_peak: float,
    clip_norm: float,
) -> tuple[Tensor, Tensor]:
    """Accumulate the micro-batches' gradients and update the weights once.

    The loss is the mean over the target tokens of all micro-batches together, so that accumulation changes nothing
    but memory.

    Args:
        objective: gives the summed loss of a batch, as `TrainingLoss` does.
        share_of_peak: the learning rate, as a share of each parameter group's "peak".

    Shape:
        returns: the loss in nats a token and the gradient norm before clipping, both () and left on the device
    """
    tokens = max(sum(batch.target_tokens for batch in batches), 1)  # windows of special tokens have no target
    losses = []
    for batch in batches:
        loss = objective(batch) / tokens
        loss.backward()
        losses.append(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(objective.parameters(), clip_norm or torch.inf)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = share_of_peak * group["peak"]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return torch.stack(losses).sum(), norm
