"""Multi-head attention (Vaswani et al. 2017, 3.2.2), with grouped keys and values (Ainslie et al. 2023).

Shape legend: B batch, T queries, S keys, D model, H query heads, Hkv key-value heads, Dh size of a head.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from tfcli.layers.attention import explicit_attention, fused_attention
from tfcli.layers.masks import attention_mask
from tfcli.layers.rotary import Rotation, rotate
from tfcli.recipe.model import ModelSection

KeysValues = tuple[Tensor, Tensor]


class KeyValueCache(Protocol):
    """Remembers keys and values between the steps of a generation."""

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """All keys and values to attend to, calling `project` for those of the current input where they are needed."""


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) Wᵒ with head_i = softmax(Qᵢ Kᵢᵀ / √Dh) Vᵢ, Q = X W^q, K = M W^k, V = M W^v.

    M is X itself in self-attention, and the encoder's output in cross-attention.
    """

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = model.num_heads, model.kv_heads, model.size_per_head
        self.dropout = model.dropout
        inner, bias = self.num_heads * self.head_dim, model.attention_bias
        self.query = nn.Linear(model.d_model, inner, bias=bias)
        self.key = nn.Linear(model.d_model, self.num_kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(model.d_model, self.num_kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(inner, model.d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
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

        def project() -> KeysValues:
            source = x if memory is None else memory
            key = self._split(self.key(source), self.num_kv_heads)
            return rotate(key, rotation), self._split(self.value(source), self.num_kv_heads)

        query = rotate(self._split(self.query(x), self.num_heads), rotation)
        key, value = project() if cache is None else cache.keys_values(project)
        if self.num_kv_heads != self.num_heads:
            group = self.num_heads // self.num_kv_heads
            key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        heads = self._attend(query, key, value, padding_mask, causal, weights)
        return self.output(heads.transpose(1, 2).flatten(2))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        padding_mask: Tensor | None,
        causal: bool,
        weights: list[Tensor] | None,
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        target_length, source_length = query.shape[2], key.shape[2]
        triangular = causal and padding_mask is None and target_length == source_length
        if weights is None and triangular:
            return fused_attention(query, key, value, causal=True, dropout=dropout)
        mask = attention_mask(padding_mask, target_length, source_length, causal=causal, device=query.device)
        if weights is None:
            return fused_attention(query, key, value, mask, dropout=dropout)
        output, of_heads = explicit_attention(query, key, value, mask, dropout)
        weights.append(of_heads)
        return output

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(B, S, heads · Dh) → (B, heads, S, Dh): heads become a batch axis."""
        return torch.unflatten(x, -1, (heads, self.head_dim)).transpose(1, 2)
