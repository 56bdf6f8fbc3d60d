"""Distributed training with DDP and FSDP: every process holds all weights (ddp), or a shard of every matrix (fsdp).

What FSDP needs is imported where it is called, since most trainings have one process.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tfcli.recipe.train import TrainSection
from tfcli.training.objective import TrainingLoss
from tfcli.training.workers import Workers

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


def parallelized(objective: TrainingLoss, train: TrainSection, workers: Workers, device: torch.device) -> nn.Module:
    """Put the loss on its device, and wrap it so that its gradients are the mean over all workers, each with its share
    of the batch.

    ddp is `DistributedDataParallel` (Li et al. 2020). fsdp is `fully_shard` (Zhao et al. 2023): a layer's weights are
    gathered when it is their turn, and no device ever holds all; what lies outside the layers, with the matrix that
    embedding and head may share, is one group more. The model's parameters become parts, which is why optimizers are
    built after this.
    """
    if workers.size == 1:
        return objective.to(device)
    if train.parallel == "ddp":
        return DistributedDataParallel(objective.to(device), gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (workers.size,))
    for layer in objective.model.transformer_layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)
    return objective


@contextmanager
def gradients_exchanged(objective: nn.Module, now: bool) -> Iterator[None]:
    """Whether the backward pass inside the block ends with gradients that all workers agree on: only that of a step's
    last micro-batch has to."""
    if _is_fsdp(objective):
        objective.set_requires_gradient_sync(now)
    if isinstance(objective, DistributedDataParallel) and not now:
        with objective.no_sync():
            yield
    else:
        yield


@contextmanager
def gathered(objective: nn.Module) -> Iterator[None]:
    """Inside the block, the model can be called by itself: of what FSDP has divided, all that lies outside the layers
    is whole. The layers gather their own when it is their turn."""
    if not _is_fsdp(objective):
        yield
        return
    objective.unshard()
    try:
        yield
    finally:
        objective.reshard()


def _is_fsdp(objective: nn.Module) -> "TypeGuard[FSDPModule]":
    return hasattr(objective, "set_requires_gradient_sync")
