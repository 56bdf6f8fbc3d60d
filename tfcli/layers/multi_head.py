"""Multi-head attention (Vaswani et al. 2017, 3.2.2), with grouped keys and values (Ainslie et al. 2023).

Shape legend: B batch, T queries, S keys, D model, H query heads, Hkv key-value heads, Dh size of a head.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from tfcli.layers.attention import explicit_attention, fused_attention, masked, without_blind_rows
from tfcli.layers.linear import Linear
from tfcli.layers.masks import attention_mask
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.layers.rotary import rotate
from tfcli.layers.row_attention import row_attention
from tfcli.layers.scores import Score
from tfcli.recipe.model import ModelSection

KeysValues = tuple[Tensor, Tensor]


class KeyValueCache(Protocol):
    """Remembers keys and values between the steps of a generation."""

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """All keys and values to attend to, calling `project` for those of the current input where they are needed."""


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) Wᵒ with head_i = softmax(Qᵢ Kᵢᵀ / √Dh) Vᵢ, Q = X W^q, K = M W^k, V = M W^v.

    M is X itself in self-attention, and the encoder's output in cross-attention. Other scores are in `scores.py`;
    parameter-free attention has no matrices: Q = K = V = X (Bishop and Bishop 2024, equation 12.5).
    """

    def __init__(self, model: ModelSection, *, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.causal, self.cross = causal, cross
        self.by_rows = False  # whether training goes a sequence at a time; a matter of speed, see `row_attention`
        self.num_heads, self.num_kv_heads, self.head_dim = model.num_heads, model.kv_heads, model.size_per_head
        self.dropout = model.attention_dropout_rate
        self.window = None if cross else model.sliding_window
        self.score = Score(model)
        self.query: nn.Module = nn.Identity()
        self.key: nn.Module = nn.Identity()
        self.value: nn.Module = nn.Identity()
        self.output: nn.Module = nn.Identity()
        if model.attention_score != "parameter_free":
            inner, of_keys, bias = (
                self.num_heads * self.head_dim,
                self.num_kv_heads * self.head_dim,
                model.attention_bias,
            )
            self.query = Linear(model.d_model, inner, bias=bias)
            self.key = Linear(model.d_model, of_keys, bias=bias)
            self.value = Linear(model.d_model, of_keys, bias=bias)
            self.output = Linear(inner, model.d_model, bias=model.has_output_bias)
        normed = model.query_key_norm
        self.query_norm = build_norm(model, self.head_dim) if normed else nn.Identity()
        self.key_norm = build_norm(model, self.head_dim) if normed else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        padding_mask: Tensor | None = None,
        positions: PositionSignal = NO_SIGNAL,
        cache: KeyValueCache | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend from every row of `x` to the rows of `memory` (of `x` itself, where there is none).

        `weights`, where given, takes the explicit path and receives the attention weights.

        Shape:
            x: (B, T, D)
            memory: (B, S, D)
            padding_mask: (B, S), True at real keys
            weights: appended (B, H, T, S)
            returns: (B, T, D)
        """
        placed = x if positions.added is None else x + positions.added

        def project() -> KeysValues:
            of_keys, of_values = (placed, x) if memory is None else (memory, memory)
            key = self.key_norm(self._split(self.key(of_keys), self.num_kv_heads))
            return rotate(key, positions.rotation), self._split(self.value(of_values), self.num_kv_heads)

        query = rotate(self.query_norm(self._split(self.query(placed), self.num_heads)), positions.rotation)
        key, value = project() if cache is None else cache.keys_values(project)
        if self.num_kv_heads != self.num_heads:
            group = self.num_heads // self.num_kv_heads
            key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        heads = self._attend(query, key, value, padding_mask, positions.bias, weights)
        return self.output(heads.transpose(1, 2).flatten(2))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        padding_mask: Tensor | None,
        bias: Tensor | None,
        weights: list[Tensor] | None,
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        fused = weights is None and self.score.has_kernel
        by_rows = self.by_rows and self.training and not (bias is not None and bias.requires_grad)
        lengths = query.shape[2], key.shape[2]
        triangular = self.causal and lengths[0] == lengths[1] and padding_mask is bias is self.window is None
        bias = None if bias is None else bias.to(query.dtype)
        if fused and triangular and not by_rows:
            return fused_attention(query, key, value, scale=self.score.scale, causal=True, dropout=dropout)
        mask = attention_mask(padding_mask, *lengths, causal=self.causal, window=self.window, device=query.device)
        if fused and by_rows:
            return self._by_rows(query, key, value, mask, bias, dropout, is_padded=padding_mask is not None)
        if fused:
            return fused_attention(query, key, value, mask, scale=self.score.scale, bias=bias, dropout=dropout)
        scores = self.score(query, key)
        output, of_heads = explicit_attention(scores if bias is None else scores + bias, value, mask, dropout)
        if weights is not None:
            weights.append(of_heads)
        return output

    def _by_rows(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        dropout: float,
        *,
        is_padded: bool,
    ) -> Tensor:
        bias = query.new_zeros(1, 1, query.shape[2], key.shape[2]) if bias is None else bias
        if mask is None:
            return row_attention(query, key, value, bias, scale=self.score.scale, dropout=dropout)
        output = row_attention(query, key, value, masked(bias, mask), scale=self.score.scale, dropout=dropout)
        return without_blind_rows(output, mask) if is_padded else output  # else each query sees itself

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(B, S, heads · Dh) → (B, heads, S, Dh): heads become a batch axis."""
        return torch.unflatten(x, -1, (heads, self.head_dim)).transpose(1, 2)
