"""AdamW (Loshchilov and Hutter 2019, algorithm 2), decaying matrices and leaving vectors alone."""

import torch
from torch import nn

from tfcli.recipe.train import TrainSection


def build_optimizer(model: nn.Module, train: TrainSection) -> torch.optim.AdamW:
    """Two groups: matrices with weight decay; gains and biases, whose shrinking would only distort, without.

    The fused kernel updates all tensors in one pass.
    """
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": train.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=train.learning_rate,
        betas=(train.beta1, train.beta2),
        eps=train.adam_eps,
        fused=True,
    )
