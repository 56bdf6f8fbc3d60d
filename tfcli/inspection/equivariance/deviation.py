"""How far numbers are apart, by their size."""

from torch import Tensor

_SMALLEST = 1e-12


def movement(before: Tensor, after: Tensor) -> Tensor:
    """The length of each row's change by that of the row.

    Shape: (…, D) twice; returns (…)
    """
    return (after - before).norm(dim=-1) / before.norm(dim=-1).clamp(min=_SMALLEST)


def root_mean_square(x: Tensor) -> float:
    """The size of a number of `x`.

    Shape: x of any
    """
    return float(x.float().square().mean().sqrt().clamp(min=_SMALLEST))
