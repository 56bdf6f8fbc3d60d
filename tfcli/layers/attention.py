"""Scaled dot-product attention, plain and fused; causal mask, padding mask, sliding window. The explicit
path is the formula line by line and gives the weights; the fused path is PyTorch's kernel; by rows, each sequence goes
after the other, whose scores fit into the cache. A test holds all three equal.
Shape legend: B batch, H heads, T target (query) length, S source (key) length, Dh head size, N rows of positions."""

import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from tfcli.layers.kernels import dropped_out, softmax_gradient
from tfcli.recipe.model import ModelSection


def causal_mask(target_length: int, source_length: int, device: torch.device | None = None) -> Tensor:
    """Query t sees key s when s ≤ t, counted from the end: with a key-value cache, T are the last of S; (T, S)."""
    mask = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return mask.tril(diagonal=source_length - target_length)


def window_mask(target_length: int, source_length: int, window: int, device: torch.device | None = None) -> Tensor:
    """Query t sees the keys less than `window` away, before and after, counted as in `causal_mask`; (T, S). With the
    causal mask that is `window` keys, its own among them (Beltagy et al. 2020, section 3.1)."""
    last, first = source_length - target_length + window - 1, source_length - target_length - window + 1
    mask = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return mask.tril(diagonal=last).triu(diagonal=first)


def attention_mask(
    padding_mask: Tensor | None,
    target_length: int,
    source_length: int,
    *,
    causal: bool,
    window: int | None = None,
    document_starts: Tensor | None = None,
    prefix: Tensor | None = None,
    device: torch.device,
) -> Tensor | None:
    """One mask out of the reasons not to attend: the key is padding, lies in the future, too far away, or in another
    document. The future is seen within a prefix (Raffel et al. 2020, figure 4).
    Shape: padding_mask (B, S), True at real tokens; document_starts (B, S), the column where each token's document
    begins, then T = S; prefix (B,), the keys that all queries see; returns (B, 1, T, S), broadcast over the heads, or
    None where every query may see every key."""
    masks = [] if padding_mask is None else [padding_mask[:, None, None, :]]
    if causal and target_length > 1:
        seen = causal_mask(target_length, source_length, device)[None, None]
        if prefix is not None:
            seen = seen | (torch.arange(source_length, device=device) < prefix[:, None, None, None])
        masks.append(seen)
    if window is not None and window < source_length:
        masks.append(window_mask(target_length, source_length, window, device)[None, None])
    if document_starts is not None:
        masks.append((document_starts[:, :, None] == document_starts[:, None, :])[:, None])
    return functools.reduce(torch.logical_and, masks) if masks else None


@dataclass(frozen=True)
class Span:
    """The columns from `start` up to `end`. A text counts its positions from column `left`, (B,), or (B, T) where each
    column has a beginning of its own: behind padding, or another document. Without `left`, columns are positions."""

    start: int
    end: int
    left: Tensor | None = None

    def rows(self, table: Tensor, offset: int = 0) -> Tensor:
        """The rows of a table of positions, `offset` further down: (N, …) → (T, …), or (B, T, …) with padding at the
        left. What padding gets is never looked at."""
        if self.left is None:
            last = self.end + offset
            assert last <= len(table), f"position {last - 1} is beyond the context of {len(table)}"
            return table[self.start + offset : last]
        columns = torch.arange(self.start, self.end, device=self.left.device)
        rows = (columns - (self.left if self.left.ndim == 2 else self.left[:, None])).clamp(min=0) + offset
        return table.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def explicit_attention(
    scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention as the lectures write it. A query that may attend to nothing gets zeros, not NaN.
    Shape: scores (B, H, T, S); value (B, H, S, Dh); mask broadcasts to (B, H, T, S), True = may attend; returns output
    (B, H, T, Dh) and weights (B, H, T, S), before dropout."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a row of −∞ alone is NaN after the softmax
    return F.dropout(weights, dropout, training=dropout > 0) @ value, weights


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """The same for the scores Q Kᵀ · scale + bias, on PyTorch's fused kernel. `causal` stands for the triangular mask
    where T = S, which is faster.
    Shape: query, returns (B, H, T, Dh); key, value (B, H, S, Dh); mask (True = may attend), bias broadcast to (B, H, T,
    S)."""
    assert not (causal and (mask is not None or bias is not None)), "one mask, not two"
    both = mask if bias is None else bias if mask is None else masked(bias, mask)
    output = F.scaled_dot_product_attention(query, key, value, both, dropout, causal, scale=scale)
    return output if bias is None or mask is None else without_blind_rows(output, mask)


def masked(bias: Tensor, mask: Tensor) -> Tensor:
    """A bias that leaves out what is masked, both broadcastable to (B, H, T, S): by half of the lowest number, not −∞,
    since a row that sees nothing must give no NaN, here and in its gradient."""
    return bias.masked_fill(~mask, torch.finfo(bias.dtype).min / 2)


def without_blind_rows(output: Tensor, mask: Tensor) -> Tensor:
    """The output, (B, H, T, Dh), with zeros where a query may attend to nothing."""
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)


class Score(nn.Module):
    """One number for every query and key. scaled_dot: q · k / √Dh (Vaswani et al. 2017, equation 1). dot: q · k (Luong
    et al. 2015, 3.1). additive: v · tanh(q + k), with a learned v a head (Bahdanau et al. 2015, A.1.2; its W and U are
    the query and key projections). A cap c makes it c · tanh(score / c) (Gemma Team 2024, section 2).
    Shape: query (B, H, T, Dh); key (B, H, S, Dh); returns (B, H, T, S)."""

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.scale = model.size_per_head**-0.5 if model.attention_score == "scaled_dot" else 1.0
        self.cap = model.attention_softcap
        additive = model.attention_score == "additive"
        self.weight = nn.Parameter(torch.empty(model.num_heads, model.size_per_head)) if additive else None

    @property
    def has_kernel(self) -> bool:
        """Whether PyTorch's fused kernel computes this score."""
        return self.weight is None and self.cap is None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """The scores, before any mask or bias."""
        if self.weight is None:
            scores = dot_scores(query, key, self.scale)
        else:
            meetings = torch.tanh(query[..., :, None, :] + key[..., None, :, :])  # (B, H, T, S, Dh)
            scores = torch.einsum("bhtsd,hd->bhts", meetings, self.weight)
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)


def dot_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """The attention scores Q Kᵀ · scale; shapes as those of `Score`."""
    return query @ key.transpose(-2, -1) * scale


def has_block_masks(device: torch.device) -> bool:
    """Whether flex attention is compiled for the device: on CUDA GPUs, with the package triton."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def block_mask(document_starts: Tensor, *, causal: bool, window: int | None) -> BlockMask:
    """What `attention_mask` says of documents, by blocks: empty ones are left out (Dong et al. 2024, section 4.2)."""

    def may_attend(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = document_starts[row, query] == document_starts[row, key]
        if causal:
            seen = seen & (key <= query)
        return seen if window is None else seen & ((query - key).abs() < window)

    rows, length = document_starts.shape
    return create_block_mask(may_attend, rows, None, length, length, device=document_starts.device)


_compiled: Callable[..., Any] = functools.cache(torch.compile)


def block_attention(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, *, scale: float) -> Tensor:
    """PyTorch's flex attention, without dropout, or gradient on a CPU; shapes as those of `fused_attention`."""
    run: Any = flex_attention if query.is_cpu or torch.compiler.is_compiling() else _compiled(flex_attention)
    return run(query, key, value, block_mask=mask, scale=scale)


CACHED_SCORES = 1 << 20  # scores worked on at a time: two megabytes of bfloat16, what stays in reach of two cores


def row_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *, scale: float, dropout: float) -> Tensor:
    """The attention of each sequence after the other, shapes as those of `fused_attention`; the bias, (B or 1, H or 1,
    T, S), gets no gradient, and a mask is a bias of −∞."""
    return _RowAttention.apply(query, key, value, bias, scale, dropout)


class _RowAttention(torch.autograd.Function):
    """With P = softmax(A), O = P V and a gradient G of O: dV = Pᵀ G, dP = G Vᵀ, dA = P ⊙ (dP − rowsum(P ⊙ dP)),
    dQ = dA K · scale, dK = dAᵀ Q · scale (the chain rule; Dao et al. 2022, appendix B.2)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float, rate: float) -> Tensor:
        output, bias = _heads_last(query), bias.expand(*query.shape[:2], -1, -1)
        kept: list[Tensor] = []
        for some in _portions(query, key):
            weights = torch.baddbmm(bias[some], query[some], key[some].transpose(1, 2), alpha=scale)
            weights = torch.softmax(weights, dim=-1, dtype=weights.dtype)  # on a GPU, autocast would make it float32
            kept.append(weights)
            if rate:
                weights, survivors = dropped_out(weights, rate)
                kept.append(survivors)
            output[some] = torch.bmm(weights, value[some])
        ctx.save_for_backward(query, key, value, *kept)
        ctx.scale, ctx.dropout = scale, rate
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *saved = ctx.saved_tensors
        kept = iter(saved)
        d_query, d_key, d_value = _heads_last(query), _heads_last(key), _heads_last(value)
        for some in _portions(query, key):
            weights = mixed = next(kept)
            d_weights = torch.bmm(gradient[some], value[some].transpose(1, 2))
            if ctx.dropout:
                survivors = next(kept).to(weights.dtype).div_(1 - ctx.dropout)
                mixed, d_weights = weights * survivors, d_weights * survivors
            d_value[some] = torch.bmm(mixed.transpose(1, 2), gradient[some])
            d_scores = softmax_gradient(d_weights, weights).mul_(ctx.scale)
            d_query[some] = torch.bmm(d_scores, key[some])
            d_key[some] = torch.bmm(d_scores.transpose(1, 2), query[some])
        return d_query, d_key, d_value, None, None, None


def _portions(query: Tensor, key: Tensor) -> Iterator[tuple[int, slice]]:
    """A sequence and as many of its heads at a time as have scores for the cache."""
    batch, heads, length, _ = query.shape
    at_once = max(1, min(heads, CACHED_SCORES // (length * key.shape[2])))
    for sequence in range(batch):
        for first in range(0, heads, at_once):
            yield sequence, slice(first, first + at_once)


def _heads_last(like: Tensor) -> Tensor:
    """An empty (B, H, T, Dh) whose heads lie side by side in memory, as the next matrix product wants them."""
    batch, heads, length, size = like.shape
    return like.new_empty(batch, length, heads, size).transpose(1, 2)
