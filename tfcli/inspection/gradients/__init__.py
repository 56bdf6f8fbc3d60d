"""Gradient norms of every layer, by variants of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class StackGradients:
    """A stack's norms of the loss's gradient, from the first layer to the last."""

    side: Literal["encoder", "decoder"]
    parameters: NDArray[np.float64]  # (L,), by all parameters of a layer together
    inputs: NDArray[np.float64]  # (L,), by what enters it


@dataclass(frozen=True)
class GradientProfile:
    """One variant of a model."""

    placement: Literal["pre", "post"] | None  # of its norms; None: it has none in its layers
    residuals: bool
    trained: bool
    loss: float  # in nats a token
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
