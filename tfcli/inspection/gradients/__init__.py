"""Gradient norms of every layer and rank collapse, by variants of a model. NaN everywhere: below rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class NormGradients:
    """What the norm of each layer's self-attention does to the gradient that goes back through it (Xu et al. 2019,
    theorem 1): its parts along 1 and along the normalised vector x̂ are removed, and the rest is divided by σ."""

    entering: NDArray[np.float64]  # (L,), norm of the gradient by what leaves the norm, times its gain
    leaving: NDArray[np.float64]  # (L,), norm of the gradient by what enters the norm
    along_ones: NDArray[np.float64]  # (L,), share of the entering square; 0 for RMSNorm, which subtracts no mean
    along_output: NDArray[np.float64]  # (L,)
    deviation: NDArray[np.float64]  # (L,), σ, the mean over tokens


@dataclass(frozen=True)
class StackGradients:
    """A stack's norms of the loss's gradient, from the first layer to the last."""

    side: Literal["encoder", "decoder"]
    parameters: NDArray[np.float64]  # (L,), by all parameters of a layer together
    inputs: NDArray[np.float64]  # (L,), by what enters it
    apart: NDArray[np.float64]  # (L,), ‖X − 1x̄ᵀ‖ / ‖X‖ of what leaves it: not the same for all tokens
    norms: NormGradients | None = None  # None: without norms


@dataclass(frozen=True)
class GradientProfile:
    """One variant of a model."""

    placement: Literal["pre", "post"] | None  # of its norms; None: it has none in its layers
    residuals: bool
    trained: bool
    loss: float  # in nats per token
    stacks: tuple[StackGradients, ...]

    @property
    def name(self) -> str:
        """In a few words."""
        norms = "no norms" if self.placement is None else f"{self.placement}-norm"
        return ", ".join(["trained"] * self.trained + [norms] + ["no residuals"] * (not self.residuals))


@dataclass(frozen=True)
class GradientsRecord:
    """Variants of one model on the same tokens. `text`: whether they are a text's, or random ones."""

    architecture: str
    initialization: str
    d_model: int
    sequences: int
    labels: int
    text: bool
    profiles: tuple[GradientProfile, ...]
