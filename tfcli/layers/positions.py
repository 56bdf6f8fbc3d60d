"""What positions do inside attention; those that join the embeddings are in `embedding.py`.

Shape legend: H heads, T queries, S keys, D model, Dh size of a head, N positions of the context.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.relative_bias import RelativeBias
from tfcli.layers.rotary import Rotation, rotation
from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection, PositionLayout


@dataclass(frozen=True)
class PositionSignal:
    """What every self-attention of a stack is told about positions; at most one of the three.

    Shape:
        rotation: tables of (T, Dh), which turn queries and keys
        bias: (1, H, T, S), added to the scores
        added: (T, D), added to what queries and keys are projected from
    """

    rotation: Rotation | None = None
    bias: Tensor | None = None
    added: Tensor | None = None


NO_SIGNAL = PositionSignal()


class AttentionPositions(nn.Module):
    """The signal of a stack; an empty one where positions join the embeddings, or where there are none."""

    def forward(self, start: int, end: int) -> PositionSignal:
        """Of queries at the positions from `start` up to `end`, and of keys from the first position up to `end`."""
        return NO_SIGNAL


class RotaryPositions(AttentionPositions):
    """Tables of cosines and sines for the whole context."""

    cosines: Tensor
    sines: Tensor
    layout: PositionLayout

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        table = rotation(
            torch.arange(model.max_seq_len),
            model.size_per_head,
            model.position_base,
            layout=model.layout,
            scaling=model.position_scaling,
        )
        self.layout = model.layout
        self.register_buffer("cosines", table.cosines, persistent=False)
        self.register_buffer("sines", table.sines, persistent=False)

    def forward(self, start: int, end: int) -> PositionSignal:
        require_within(end, self.cosines)
        return PositionSignal(rotation=Rotation(self.cosines, self.sines, self.layout).at(start, end))


class AlibiPositions(AttentionPositions):
    """Slopes, one a head."""

    slopes: Tensor

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(model.num_heads), persistent=False)

    def forward(self, start: int, end: int) -> PositionSignal:
        return PositionSignal(bias=alibi_bias(end - start, end, self.slopes))


class RelativePositions(AttentionPositions):
    """T5's learned bias a bucket of distances."""

    def __init__(self, model: ModelSection, *, bidirectional: bool) -> None:
        super().__init__()
        self.relative_bias = RelativeBias(model, bidirectional=bidirectional)

    def forward(self, start: int, end: int) -> PositionSignal:
        return PositionSignal(bias=self.relative_bias(end - start, end))


class QueryKeyPositions(AttentionPositions):
    """A table that is added to what queries and keys are projected from, and not to values (Prince 2023, section 12.3:
    the lecture's sentence; its formula adds after the projections)."""

    table: Tensor

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.offset = model.position_offset
        register_table(self, "table", model)

    def forward(self, start: int, end: int) -> PositionSignal:
        require_within(end + self.offset, self.table)
        return PositionSignal(added=self.table[start + self.offset : end + self.offset])


def register_table(module: nn.Module, name: str, model: ModelSection) -> None:
    """Give a module the table of learned or sinusoidal positions, of N + offset rows.

    Shape:
        table: (N + offset, D), or as many columns as are concatenated
    """
    rows = model.max_seq_len + model.position_offset
    if model.positions == "learned":
        module.register_parameter(name, nn.Parameter(torch.empty(rows, model.position_size)))
        return
    table = sinusoidal_encoding(
        rows, model.position_size, model.position_base, layout=model.layout, scaling=model.position_scaling
    )
    module.register_buffer(name, table, persistent=False)


def require_within(end: int, table: Tensor) -> None:
    """Assert that a table has the rows up to `end`."""
    assert end <= len(table), f"position {end - 1} is beyond the context of {len(table)}"


def attention_positions(model: ModelSection, *, bidirectional: bool) -> AttentionPositions:
    """What the recipe's positions do inside the attention of a stack."""
    if model.positions == "rotary":
        return RotaryPositions(model)
    if model.positions == "alibi":
        return AlibiPositions(model)
    if model.positions == "t5":
        return RelativePositions(model, bidirectional=bidirectional)
    if model.positions != "none" and model.position_merge == "query_key":
        return QueryKeyPositions(model)
    return AttentionPositions()
