"""Whole texts as vectors."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Pool = Literal["mean", "first", "last"]
"""What stands for a text: the mean over its tokens, special ones among them and padding not; or one of them."""


@dataclass(frozen=True)
class EmbeddingsRecord:
    """A vector a text, not normalised. `layer` is the one whose output was pooled; None: the last, behind its norm.

    Shape:
        vectors: (N, D)
        tokens: (N,), how many each text was read as
    """

    run: str
    architecture: str
    pool: Pool
    layer: int | None
    texts: tuple[str, ...]
    tokens: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def cosines(self) -> NDArray[np.float32]:
        """How alike texts are: u·v / ‖u‖‖v‖.

        Shape:
            returns: (N, N)
        """
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit = self.vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        found: NDArray[np.float32] = unit @ unit.T
        return found
