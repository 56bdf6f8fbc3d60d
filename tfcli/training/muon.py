"""Muon: steps of momentum whose every direction is equally long (Jordan et al. 2024)."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tfcli.runs.weights import full_tensor, sharded_as

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of x ↦ a x + b x³ + c x⁵, chosen to bring small singular values up quickly: they end between 0.7 and 1.2."""
ITERATIONS = 5


class Muon(Optimizer):
    """M ← μ M + (1 − μ) G; W ← (1 − η λ) W − η √max(1, rows / columns) · orthogonal((1 − μ) G + μ M). Only for
    matrices. `torch.optim.Muon` takes one at a time; here those of one shape go together, several times faster."""

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        assert closure is None, "the gradients are there already"
        for group in self.param_groups:
            of_shape: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    of_shape[parameter.shape].append(parameter)
            for parameters in of_shape.values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        ahead = []
        for parameter in parameters:
            gradient, state = parameter.grad, self.state[parameter]
            assert gradient is not None
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
            buffer = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
            ahead.append(full_tensor(gradient.lerp(buffer, group["momentum"])))
        rows, columns = parameters[0].shape
        rate = group["lr"] * math.sqrt(max(1.0, rows / columns))
        for parameter, direction in zip(parameters, orthogonal(torch.stack(ahead)), strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(sharded_as(direction.to(parameter.dtype), parameter), alpha=-rate)


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly U Vᵀ of every matrix U Σ Vᵀ, (N, rows, columns), by five steps of a Newton-Schulz iteration in bfloat16:
    with A = X Xᵀ, X ← a X + (b A + c A²) X."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # singular values of at most 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
