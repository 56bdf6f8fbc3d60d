"""Gradient norms of every layer, by variants of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class StackGradients:
    """A stack's norms from the first layer to the last: of the loss's gradient by all parameters of a layer together,
    and by what enters it. Shape: (L,) both."""

    side: Literal["encoder", "decoder"]
    parameters: NDArray[np.float64]
    inputs: NDArray[np.float64]


@dataclass(frozen=True)
class GradientProfile:
    """One variant of a model: where its norms stand (None: it has none in its layers), whether it has residuals,
    whether it is trained, and its loss in nats a token."""

    placement: Literal["pre", "post"] | None
    residuals: bool
    trained: bool
    loss: float
    stacks: tuple[StackGradients, ...]

    @property
    def name(self) -> str:
        """In a few words."""
        norms = "no norms" if self.placement is None else f"{self.placement}-norm"
        parts = ["trained"] * self.trained + [norms] + ["no residuals"] * (not self.residuals)
        return ", ".join(parts)


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
