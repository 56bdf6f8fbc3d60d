"""Multi-head attention (Vaswani et al. 2017, 3.2.2), grouped-query attention (Ainslie et al. 2023) with fewer key-value
heads than query heads, and multi-query attention (Shazeer 2019) with one. Shape legend: B batch, T queries, S keys, D
model, H query heads, Hkv key-value heads, Dh size of a head."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask

from tfcli.layers.attention import (
    Score,
    attention_mask,
    block_attention,
    block_mask,
    dot_scores,
    explicit_attention,
    fused_attention,
    has_block_masks,
    masked,
    row_attention,
    without_blind_rows,
)
from tfcli.layers.kernels import Linear
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.layers.rotary import rotate
from tfcli.recipe.model import ModelSection

KeysValues = tuple[Tensor, Tensor]
AttentionPath = Literal["fused", "rows"]
_MANY_TEXTS = 8  # from so many texts on, one query each, the plain formula is faster than a CPU's fused kernel


class KeyValueCache(Protocol):
    """Remembers keys and values between the steps of a generation."""

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """All keys and values to attend to, calling `project` for those of the current input where they are needed."""


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) Wᵒ with head_i = softmax(Qᵢ Kᵢᵀ / √Dh) Vᵢ, Q = X W^q, K = M W^k, V = M W^v. M is X itself
    in self-attention, and the encoder's output in cross-attention. Other scores are in `Score`; parameter-free
    attention has no matrices: Q = K = V = X (Bishop and Bishop 2024, equation 12.5)."""

    def __init__(self, model: ModelSection, *, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.causal, self.cross = causal, cross
        self.training_path: AttentionPath = "fused"
        self.num_heads, self.num_kv_heads, self.head_dim = model.num_heads, model.kv_heads, model.size_per_head
        self.dropout, self.window = model.attention_dropout_rate, None if cross else model.sliding_window
        self.score = Score(model)
        inner, of_keys, _ = self.widths
        linear: Any = nn.Identity if model.attention_score == "parameter_free" else Linear
        self.query: nn.Module = linear(model.d_model, inner, bias=model.attention_bias)
        self.key: nn.Module = linear(model.d_model, of_keys, bias=model.attention_bias)
        self.value: nn.Module = linear(model.d_model, of_keys, bias=model.attention_bias)
        self.output: nn.Module = linear(inner, model.d_model, bias=model.has_output_bias)
        self.joined: nn.Module | None = None
        self.query_norm = build_norm(model, self.head_dim) if model.query_key_norm else None
        self.key_norm = build_norm(model, self.head_dim) if model.query_key_norm else None

    def use_in_training(self, path: AttentionPath) -> None:
        """Let training go by PyTorch's fused kernel or a sequence at a time ("rows"): a matter of speed alone."""
        self.training_path = path

    def join_projections(self, lay_out: Callable[[Tensor, Tensor | None], nn.Module]) -> None:
        """Let one matrix give the queries, keys and values of all heads, in a model that only predicts from now on.
        `lay_out` makes a layer of a weight, (out, in), and a bias, (out,)."""
        parts = [part for part in (self.query, self.key, self.value) if isinstance(part, nn.Linear)]
        if not parts:
            return  # parameter-free attention
        biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
        self.joined = lay_out(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)
        self.query = self.key = self.value = nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        padding_mask: Tensor | None = None,
        mask: Tensor | BlockMask | None = None,
        positions: PositionSignal = NO_SIGNAL,
        cache: KeyValueCache | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend from every row of `x` to those of `memory`, else of `x` itself. `mask` is that of `mask_of_pass`, else
        built where it is needed; `weights`, where given, takes the explicit path, and the weights are appended to it.
        Shape: x, returns (B, T, D); memory (B, S, D); padding_mask (B, S), True at real keys; weights (B, H, T, S)."""
        placed = x if positions.added is None else x + positions.added
        joined = None if self.joined is None else self.joined(x).split(self.widths, dim=-1)

        def project() -> KeysValues:
            of_keys, of_values = (placed, x) if memory is None else (memory, memory)
            key, value = (self.key(of_keys), self.value(of_values)) if joined is None else joined[1:]
            key = self._heads(key, self.num_kv_heads, self.key_norm)
            return rotate(key, positions.rotation), self._heads(value, self.num_kv_heads)

        query = self._heads(self.query(placed) if joined is None else joined[0], self.num_heads, self.query_norm)
        query = rotate(query, positions.rotation)
        key, value = project() if cache is None else cache.keys_values(project)
        bias = None if positions.bias is None else positions.bias.to(query.dtype)
        explicit = weights is not None
        if self._is_one_query(query.shape[2], explicit=explicit):
            heads = self._attend_from_one(query, key, value, padding_mask, bias)
        else:
            if key.shape[0] != query.shape[0]:
                texts = query.shape[0] // key.shape[0]
                key, value = key.repeat_interleave(texts, dim=0), value.repeat_interleave(texts, dim=0)
                padding_mask = None if padding_mask is None else padding_mask.repeat_interleave(texts, dim=0)
            if self.num_kv_heads != self.num_heads:
                group = self.num_heads // self.num_kv_heads
                key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
            if mask is None:
                lengths = query.shape[2], key.shape[2]
                mask = self.mask_of_pass(padding_mask, *lengths, bias=bias, explicit=explicit, device=x.device)
            is_padded = padding_mask is not None
            heads = self._attend(query, key, value, mask=mask, bias=bias, weights=weights, is_padded=is_padded)
        return self.output(heads.transpose(1, 2).flatten(2))

    @property
    def widths(self) -> tuple[int, int, int]:
        """Columns of the queries, keys and values of all heads side by side."""
        of_keys = self.num_kv_heads * self.head_dim
        return self.num_heads * self.head_dim, of_keys, of_keys

    def mask_of_pass(
        self,
        padding_mask: Tensor | None,
        target_length: int,
        source_length: int,
        *,
        document_starts: Tensor | None = None,
        bias: Tensor | None,
        explicit: bool,
        prefix: Tensor | None = None,
        device: torch.device,
    ) -> Tensor | BlockMask | None:
        """The attention mask of a pass, the same for all layers of a stack; None where their path needs none. It is
        `explicit` where attention weights are wanted. Shape: bias (1, H, T, S); all else as of `attention_mask`."""
        if self._is_one_query(target_length, explicit=explicit):
            return None
        if padding_mask is None and bias is None and prefix is None and self._is_fused(bias, explicit=explicit):
            if document_starts is not None:
                if has_block_masks(device) and not (self.dropout and self.training):
                    return block_mask(document_starts, causal=self.causal, window=self.window)
            elif self.causal and self.window is None and target_length == source_length:
                return None  # the kernel has the triangle of its own
        how: dict[str, Any] = {"causal": self.causal, "window": self.window, "prefix": prefix, "device": device}
        return attention_mask(padding_mask, target_length, source_length, document_starts=document_starts, **how)

    def _is_one_query(self, target_length: int, *, explicit: bool) -> bool:
        return target_length == 1 and not self.training and self.score.has_kernel and not explicit

    def _is_fused(self, bias: Tensor | None, *, explicit: bool) -> bool:
        by_rows = self.training_path == "rows" and self.training and not (bias is not None and bias.requires_grad)
        return self.score.has_kernel and not explicit and not by_rows

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | BlockMask | None,
        bias: Tensor | None,
        weights: list[Tensor] | None,
        is_padded: bool,
    ) -> Tensor:
        scale, dropout = self.score.scale, self.dropout if self.training else 0.0
        if isinstance(mask, BlockMask):
            return block_attention(query, key, value, mask, scale=scale)
        if self._is_fused(bias, explicit=weights is not None):
            causal = self.causal and mask is None and bias is None and query.shape[2] == key.shape[2]
            return fused_attention(query, key, value, mask, scale=scale, bias=bias, causal=causal, dropout=dropout)
        if weights is None and self.score.has_kernel:
            bias = query.new_zeros(1, 1, query.shape[2], key.shape[2]) if bias is None else bias
            bias = bias if mask is None else masked(bias, mask)
            output = row_attention(query, key, value, bias, scale=scale, dropout=dropout)
            # Without padding, each query sees itself.
            return output if mask is None or not is_padded else without_blind_rows(output, mask)
        scores = self.score(query, key)
        output, of_heads = explicit_attention(scores if bias is None else scores + bias, value, mask, dropout)
        if weights is not None:
            weights.append(of_heads)
        return output

    def _attend_from_one(
        self, query: Tensor, key: Tensor, value: Tensor, padding_mask: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """Attention of the last position alone, (B, H, 1, Dh), as when text is generated: it sees all keys but padding
        and those beyond the window. Heads that share keys stand in the place of several queries, so that no key is
        repeated; so do texts that share a source; key, value: (B or sources, Hkv, S, Dh), bias: (1, H, 1, S)."""
        if self.window is not None and self.window < key.shape[2]:
            key, value = key[:, :, -self.window :], value[:, :, -self.window :]
            padding_mask = None if padding_mask is None else padding_mask[:, -self.window :]
            bias = None if bias is None else bias[..., -self.window :]
        texts, heads = query.shape[0] // key.shape[0], self.num_heads // self.num_kv_heads
        if texts > 1:
            apart = query.view(key.shape[0], texts, self.num_kv_heads, heads, self.head_dim)
            shared = apart.transpose(1, 2).flatten(2, 3)
        else:
            shared = query if heads == 1 else query.view(query.shape[0], self.num_kv_heads, heads, self.head_dim)
        mask = None if padding_mask is None else padding_mask[:, None, None]
        bias = None if bias is None else bias.view(1, self.num_kv_heads, -1, key.shape[2])
        if query.is_cpu and shared.shape[0] >= _MANY_TEXTS:
            scores = dot_scores(shared, key, self.score.scale)
            output, _ = explicit_attention(scores if bias is None else scores + bias, value, mask)
        else:
            output = fused_attention(shared, key, value, mask, scale=self.score.scale, bias=bias)
        if texts > 1:
            output = output.view(key.shape[0], self.num_kv_heads, texts, heads, self.head_dim).transpose(1, 2)
        return output.reshape(query.shape)

    def _heads(self, x: Tensor, heads: int, norm: nn.Module | None = None) -> Tensor:
        """(B, S, heads · Dh) → (B, heads, S, Dh), normalised where there is a norm: heads become a batch axis."""
        split = x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)
        return split if norm is None else norm(split)
