"""Position ids: where the tokens of a pass stand in their texts.

Shape legend: B batch, T tokens of the pass, N rows of a table of positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """The columns from `start` up to `end`. A text whose first `left` columns are padding counts its positions from
    there; without `left`, columns are positions.

    Shape:
        left: (B,), whole numbers
    """

    start: int
    end: int
    left: Tensor | None = None

    def rows(self, table: Tensor, offset: int = 0) -> Tensor:
        """The rows of a table of positions, `offset` further down. What padding gets is never looked at.

        Shape:
            table: (N, …)
            returns: (T, …), or (B, T, …) with padding at the left
        """
        if self.left is None:
            last = self.end + offset
            assert last <= len(table), f"position {last - 1} is beyond the context of {len(table)}"
            return table[self.start + offset : last]
        columns = torch.arange(self.start, self.end, device=self.left.device)
        return table[(columns - self.left[:, None]).clamp(min=0) + offset]
