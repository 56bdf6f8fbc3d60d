"""The transformer layer: attention, residual connections, feed-forward (gated: SwiGLU), gradient checkpointing."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask
from torch.utils.checkpoint import checkpoint

from tfcli.layers.kernels import Linear, for_products
from tfcli.layers.multi_head import KeyValueCache, MultiHeadAttention
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.recipe.model import Activation, ModelSection

_gelu_tanh = functools.partial(F.gelu, approximate="tanh")
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "relu2": lambda x: F.relu(x).square()}
ACTIVATIONS |= {"gelu": F.gelu, "gelu_tanh": _gelu_tanh, "silu": F.silu}
ACTIVATIONS |= {"geglu": F.gelu, "geglu_tanh": _gelu_tanh, "swiglu": F.silu}  # of a gate


class Empty(nn.Module):
    """A linear layer to or from 0 dimensions, which has no weights: zeros."""

    bias = None

    def __init__(self, _: int, size: int, *, bias: bool = False) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Zeros for every vector; x: (…, in) → (…, out)."""
        return x.new_zeros(*x.shape[:-1], self.size)


class FeedForward(nn.Module):
    """f(x W₁) W₂, f an activation (Vaswani et al. 2017, eq. 2); gated, as in SwiGLU, (f(x W) ⊙ x V) W₂ (Shazeer 2020,
    eq. 6). Of inner size 0 it has no weights and adds 0."""

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[model.activation], model.activation_dropout
        sizes, bias = (model.d_model, model.inner_size), model.feed_forward_bias
        linear: Any = Linear if model.inner_size else Empty
        self.gate: Linear | None = linear(*sizes, bias=bias) if model.is_gated else None
        self.up: Linear = linear(*sizes, bias=bias)
        self.output: Linear = linear(*reversed(sizes), bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Each vector on its own; x: (…, D) → (…, D)."""
        inner = self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        return self.output(F.dropout(inner, self.dropout) if self.training else inner)


class Residual(nn.Module):
    """The residual connection around a sublayer f. Pre-norm: x + f(norm(x)); post-norm: norm(x + f(x)) (Xiong et al.
    2020, table 1). With a `source` s beside it, x + f(norm(s)). With `model.residuals` off f(norm(x)) or norm(f(x))."""

    def __init__(self, model: ModelSection, *, normed: bool = True) -> None:
        super().__init__()
        self.placement, self.dropout = model.norm_placement, model.dropout
        self.norm, self.adds = build_norm(model) if normed else nn.Identity(), model.residuals

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], source: Tensor | None = None) -> Tensor:
        """Run the sublayer and add to x; x, source: (B, T, D)."""
        if self.placement == "pre":
            return self._added(x, sublayer(for_products(self.norm(x if source is None else source))))
        return self.norm(self._added(x, sublayer(for_products(x))))

    def _added(self, x: Tensor, given: Tensor) -> Tensor:
        given = F.dropout(given, self.dropout) if self.training else given
        return x + given if self.adds else given


class LayerCache(Protocol):
    """What one layer remembers between the steps of a generation."""

    self_attention: KeyValueCache
    cross_attention: KeyValueCache


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention in the decoder of an encoder-decoder, feed-forward."""

    def __init__(self, model: ModelSection, *, causal: bool, cross_attention: bool = False) -> None:
        super().__init__()
        self.attention, self.attention_residual = MultiHeadAttention(model, causal=causal), Residual(model)
        self.cross_attention = MultiHeadAttention(model, cross=True) if cross_attention else None
        self.cross_attention_residual = Residual(model) if cross_attention else None
        self.feed_forward = FeedForward(model)
        self.feed_forward_residual = Residual(model, normed=model.inner_size > 0)
        self.is_parallel = model.parallel_residual
        self._translated: Callable[..., Tensor] | None = None
        self._checkpoints = False

    def use_gradient_checkpointing(self) -> None:
        """Keep of a pass what goes in alone, and compute the rest again for the backward pass (Chen et al. 2016). The
        same dropout is drawn again, so that gradients stay what they were."""
        self._checkpoints = True

    def compile_sublayers(self) -> None:
        """Translate the layer by torch.compile; checkpointing stays outside of what is translated."""
        self._translated = torch.compile(self._sublayers)

    def forward(self, x: Tensor, **how: Any) -> Tensor:
        """Run the sublayers, as `_sublayers` says; x: (B, T, D) → (B, T, D)."""
        run = self._translated or self._sublayers
        return checkpoint(run, x, use_reentrant=False, **how) if self._checkpoints else run(x, **how)

    def _sublayers(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        mask: Tensor | BlockMask | None = None,
        memory: Tensor | None = None,
        memory_padding_mask: Tensor | None = None,
        positions: PositionSignal = NO_SIGNAL,
        cache: LayerCache | None = None,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """One after the other, each inside its residual; mask: (B, 1, T, S), as `MultiHeadAttention.mask_of_pass` has
        it; memory: (B, S, D); padding masks: (B, T) and (B, S), True at real tokens."""

        def self_attend(h: Tensor) -> Tensor:
            how: dict[str, Any] = {"padding_mask": padding_mask, "mask": mask, "positions": positions}
            return self.attention(h, **how, cache=cache and cache.self_attention, weights=self_weights)

        def cross_attend(h: Tensor) -> Tensor:
            assert self.cross_attention is not None
            how: dict[str, Any] = {"padding_mask": memory_padding_mask, "cache": cache and cache.cross_attention}
            return self.cross_attention(h, memory, **how, weights=cross_weights)

        source = x if self.is_parallel else None
        x = self.attention_residual(x, self_attend)
        if self.cross_attention_residual is not None:
            x = self.cross_attention_residual(x, cross_attend)
        return self.feed_forward_residual(x, self.feed_forward, source)
