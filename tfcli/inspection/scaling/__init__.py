"""Scaled dot products: what dividing the scores by √D_k does to the softmax, for growing D_k."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SoftmaxState:
    """A softmax over the scores of one query, in the mean over all queries."""

    largest_weight: float
    gradient_norm: float  # Frobenius norm of the Jacobian diag(w) − w wᵀ, by which gradients are multiplied
    entropy: float  # of the weights, in nats


@dataclass(frozen=True)
class ScalingRow:
    """One D_k. `variance` (expected: D_k) is that of qᵀk; `scaled_variance` (1), as a model's attention scales it."""

    d_k: int
    variance: float
    standard_error: float  # of `variance`
    scaled_variance: float
    unscaled: SoftmaxState
    scaled: SoftmaxState


@dataclass(frozen=True)
class ScalingRecord:
    """Queries and keys with independent entries of mean 0 and variance 1; every query meets `keys` keys."""

    queries: int
    keys: int
    seed: int
    rows: tuple[ScalingRow, ...]
