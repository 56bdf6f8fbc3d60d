"""Positions: sinusoidal and learned ones added to embeddings, others that attention asks for. Shape legend: H heads, T
queries, S keys, D model, Dh size of a head, N positions of the context."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.attention import Span
from tfcli.layers.relative_bias import RelativeBias
from tfcli.layers.rotary import Rotation, dynamic_frequencies, rotary_frequencies, rotation
from tfcli.recipe.model import ModelSection, PositionLayout


def sinusoidal_encoding(
    length: int,
    d_model: int,
    base: float = 10_000.0,
    *,
    layout: PositionLayout = "interleaved",
    offset: int = 0,
    scaling: float = 1.0,
) -> Tensor:
    """r_ni = sin(n / base^(i/D)) for even i, cos(n / base^((i−1)/D)) for odd i, i from 0, n from `offset`, divided by
    `scaling`; (length, D). An even dimension and the next share a wavelength, from 2π to 2π·base. An odd D ends on a
    sine. The layout "halves" holds the same numbers with all sines before all cosines, as Marian has it.

        >>> sinusoidal_encoding(2, 4)[1]      # sin 1, cos 1, sin 0.01, cos 0.01
        tensor([0.8415, 0.5403, 0.0100, 0.9999])
    """
    even = torch.arange(d_model) // 2 * 2  # i for even dimensions, i − 1 for odd ones
    angles = ((torch.arange(length).double() + offset) / scaling)[:, None] / base ** (even.double() / d_model)
    table = torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos()).float()
    return table if layout == "interleaved" else torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)


@dataclass(frozen=True)
class PositionSignal:
    """What every self-attention of a stack is told about positions; at most one of the three. `rotation`: tables of
    (T, R) or (B, 1, T, R), which turn the first R dimensions of queries and keys. `bias`: (1, H, T, S), added to the
    scores. `added`: (T, D) or (B, T, D), added to what queries and keys are projected from."""

    rotation: Rotation | None = None
    bias: Tensor | None = None
    added: Tensor | None = None


NO_SIGNAL = PositionSignal()
_FIRST_ROWS = 1 << 16  # positions that a formula's table begins with; it grows up to the context where a text has more


class AttentionPositions(nn.Module):
    """The signal of a stack; an empty one where positions join the embeddings, or where there are none."""

    def forward(self, span: Span) -> PositionSignal:
        """Of queries at `span`, and of keys from the first column up to its end."""
        return NO_SIGNAL

    def extend(self, length: int) -> None:
        """Make room for `length` positions, where there is a table of fewer."""


class RotaryPositions(AttentionPositions):
    """Tables of cosines and sines; "dynamic" ones end at the context."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.section = model
        table = _rotation(model, min(model.max_seq_len, _FIRST_ROWS))
        self.register_buffer("cosines", table.cosines, persistent=False)
        self.register_buffer("sines", table.sines, persistent=False)

    def forward(self, span: Span) -> PositionSignal:
        """The angles at `span`."""
        context = self.section.max_seq_len
        if span.end > context and self.section.position_scaling_kind == "dynamic":
            return PositionSignal(self._beyond_context(span))
        if len(self.cosines) < span.end <= context:
            self.extend(min(2 * span.end, context))
        return PositionSignal(Rotation(self.cosines, self.sines, self.section.layout).at(span))

    def extend(self, length: int) -> None:
        """Make room for `length` positions."""
        if self.section.position_scaling_kind == "dynamic":
            length = min(length, self.section.max_seq_len)
        if length > len(self.cosines):
            with torch.inference_mode(False):  # the tables stay in the model, which may be trained on
                table = self._made(length)
                self.cosines, self.sines = table.cosines, table.sines

    def _made(self, length: int) -> Rotation:
        table = _rotation(self.section, length)
        return Rotation(table.cosines.to(self.cosines), table.sines.to(self.sines), table.layout)

    def _beyond_context(self, span: Span) -> Rotation:
        """The angles of "dynamic" positions, which depend on the length of each text: padding does not count."""
        if span.left is None:
            return self._made(span.end).at(span)
        assert span.left.ndim == 1, "windows of several documents end at the context"
        # Apple's MPS has no float64.
        first_columns = span.left.cpu()
        frequencies = dynamic_frequencies(self.section, span.end - first_columns)
        columns = torch.arange(span.start, span.end)
        positions = (columns - first_columns[:, None]).clamp(min=0)
        table = rotation(positions, frequencies, self.section.layout, self.section.rotary_gain)
        cosines = table.cosines[:, None].to(self.cosines)
        sines = table.sines[:, None].to(self.sines)
        return Rotation(cosines, sines, table.layout)


class AlibiPositions(AttentionPositions):
    """Slopes, one a head."""

    slopes: Tensor

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(model.num_heads), persistent=False)

    def forward(self, span: Span) -> PositionSignal:
        """The bias of every head."""
        return PositionSignal(bias=alibi_bias(span.end - span.start, span.end, self.slopes))


class _RelativePositions(AttentionPositions):
    def __init__(self, model: ModelSection, *, bidirectional: bool) -> None:
        super().__init__()
        self.relative_bias = RelativeBias(model, bidirectional=bidirectional)

    def forward(self, span: Span) -> PositionSignal:
        return PositionSignal(bias=self.relative_bias(span.end - span.start, span.end))


class PositionTable(nn.Module):
    """A module with a table of learned positions, (N + offset, D), or of sinusoidal ones, whose rows are made when they
    are first asked for; with as many columns as are concatenated, where they are."""

    section: ModelSection
    table_name = "positions"

    def register_table(self) -> None:
        """Make the table, or the beginning of a sinusoidal one."""
        model = self.section
        if model.positions == "learned":
            rows = model.max_seq_len + model.position_offset
            self.register_parameter(self.table_name, nn.Parameter(torch.empty(rows, model.position_size)))
        else:
            table = sinusoids(model, min(model.max_seq_len, _FIRST_ROWS))
            self.register_buffer(self.table_name, table, persistent=False)

    def position_rows(self, span: Span) -> Tensor:
        """The rows of a span: (T, D), or (B, T, D) with padding at the left."""
        model = self.section
        there = len(getattr(self, self.table_name)) - model.position_offset
        if model.positions != "learned" and there < span.end <= model.max_seq_len:
            self.extend(min(2 * span.end, model.max_seq_len))
        return span.rows(getattr(self, self.table_name), model.position_offset)

    def extend(self, length: int) -> None:
        """Make room for `length` positions, where there is a table of fewer."""
        if (table := getattr(self, self.table_name, None)) is None:
            return
        assert self.section.positions != "learned", "nobody has learned what stands beyond the context"
        if length + self.section.position_offset > len(table):
            with torch.inference_mode(False):  # the table stays in the model, which may be trained on
                setattr(self, self.table_name, sinusoids(self.section, length).to(table))


class QueryKeyPositions(PositionTable, AttentionPositions):
    """A table that is added to what queries and keys are projected from, and not to values (Prince 2023, section 12.3:
    the lecture's sentence; its formula adds after the projections)."""

    table_name = "table"

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.section = model
        self.register_table()

    def forward(self, span: Span) -> PositionSignal:
        """The rows of the table."""
        return PositionSignal(added=self.position_rows(span))


def sinusoids(model: ModelSection, length: int) -> Tensor:
    """The table of a model's first positions, and of the rows before them."""
    sizes = length + model.position_offset, model.position_size, model.position_base
    return sinusoidal_encoding(*sizes, layout=model.layout, scaling=model.position_scaling)


def _rotation(model: ModelSection, length: int) -> Rotation:
    return rotation(torch.arange(length), rotary_frequencies(model, length), model.layout, model.rotary_gain)


def attention_positions(model: ModelSection, *, bidirectional: bool) -> AttentionPositions:
    """What the recipe's positions do inside the attention of a stack."""
    if model.positions == "rotary":
        return RotaryPositions(model)
    if model.positions == "alibi":
        return AlibiPositions(model)
    if model.positions == "t5":
        return _RelativePositions(model, bidirectional=bidirectional)
    if model.positions != "none" and model.position_merge == "query_key":
        return QueryKeyPositions(model)
    return AttentionPositions()
