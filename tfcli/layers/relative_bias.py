"""T5's relative position bias: a learned number a head and bucket of distances (Raffel et al. 2020, section 2.1)."""

import math

import torch
from torch import Tensor, nn

from tfcli.recipe.model import ModelSection


class RelativeBias(nn.Module):
    """A table for all layers of a stack; `bidirectional`, half of the buckets is for keys after their query."""

    def __init__(self, model: ModelSection, *, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional, self.max_distance = bidirectional, model.position_max_distance
        self.weight = nn.Parameter(torch.empty(model.position_buckets, model.num_heads))

    def forward(self, target_length: int, source_length: int) -> Tensor:
        """The bias of every query and key, (1, H, T, S), the queries being the last rows."""
        distances = torch.arange(1 - source_length, target_length, device=self.weight.device)
        buckets = relative_buckets(
            distances, buckets=len(self.weight), max_distance=self.max_distance, bidirectional=self.bidirectional
        )
        # A row for each query would be the same line one step further on: looked up once, its gradient is added up
        # once a distance, and not once a pair, in which a GPU spent half of a step.
        return self.weight[buckets].T.unfold(1, source_length, 1).flip(1)[None]


def relative_buckets(distance: Tensor, *, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Which bucket, 0 … buckets − 1, each distance (key − query) falls into. Half of them hold one distance each, the
    others ranges that grow logarithmically up to `max_distance`. One-way, the future is as distance 0."""
    if bidirectional:
        buckets //= 2
        side, distance = (distance > 0).long() * buckets, distance.abs()
    else:
        side, distance = torch.zeros_like(distance), (-distance).clamp(min=0)
    exact = buckets // 2
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return side + torch.where(distance < exact, distance, far)
