"""Gradient accumulation and gradient clipping: one optimizer update."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tfcli.data.batch import Batch
from tfcli.runs.weights import full_tensor
from tfcli.training.distributed import SINGLE_PROCESS, Workers, gradients_exchanged
from tfcli.training.metrics import UpdateSizes


def optimizer_step(
    objective: nn.Module,
    optimizers: Sequence[Optimizer],
    batches: Sequence[Batch],
    *,
    learning_rate_factor: float,
    clip_norm: float,
    only_finite: bool = False,
    workers: Workers = SINGLE_PROCESS,
    measured: UpdateSizes | None = None,
) -> tuple[Tensor, Tensor]:
    """Accumulate the micro-batches' gradients and update the weights once. The loss is the mean over the target tokens
    of all micro-batches together, so that accumulation changes nothing but memory.

    Args:
        objective: gives the summed losses of a batch, plain and to be minimised, as `TrainingLoss` does.
        learning_rate_factor: the learning rate, as a share of each parameter group's "peak".
        only_finite: leave weights and moments alone where the loss or the norm is not finite; to know it, the
            device has to be waited for.
        workers: each takes its share of every micro-batch; loss and norm are those of all shares together.
        measured: finds how far the update moves the weights.

    Shape:
        returns: both losses in nats a token, (2,), and the gradient norm before clipping, (); left on the device
    """
    tokens = max(sum(batch.target_tokens for batch in batches), 1)  # windows of special tokens have no target
    losses = []
    for index, batch in enumerate(batches, start=1):
        with gradients_exchanged(objective, now=index == len(batches)):
            loss = objective(workers.share(batch)) / tokens
            (workers.size * loss[1]).backward()  # their gradients are averaged, and shall be summed
        losses.append(loss.detach())
    loss = workers.sum(torch.stack(losses).sum(0))
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(objective.parameters(), clip_norm or torch.inf))
    taken = not only_finite or bool(torch.isfinite(loss).all() & torch.isfinite(norm))
    with measured or nullcontext():
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_factor * group["peak"]
            if taken:
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return loss, norm
