"""What a model would predict if it stopped after each layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tfcli.records.generation import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Lens:
    """The logit lens on a text. Depth 0 is what enters the first layer, depth l what leaves layer l − 1, so that the
    last row is the model's own prediction.

    `top[depth][position]` is the likeliest token there, `probabilities` its probability, and `final` that of the
    token which the model predicts in the end. `settled[position]` is the depth from which on that token stays the
    likeliest. `candidates[depth]` are the likeliest at `position`.

    Shape:
        probabilities, final: (L + 1, T)
    """

    kind: Literal["next", "masked"]
    tokens: tuple[str, ...]
    answers: tuple[str | None, ...]
    top: tuple[tuple[str, ...], ...]
    probabilities: NDArray[np.float32]
    final: NDArray[np.float32]
    settled: tuple[int, ...]
    position: int
    candidates: tuple[tuple[Candidate, ...], ...]
