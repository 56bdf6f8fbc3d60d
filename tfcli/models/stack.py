"""A stack of layers: what encoders and decoders are made of."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from tfcli.layers.layer import LayerCache, TransformerLayer
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import attention_positions
from tfcli.layers.span import Span
from tfcli.recipe.model import ModelSection


class StackCache(Protocol):
    """What a stack remembers between the steps of a generation."""

    layers: Sequence[LayerCache]

    @property
    def length(self) -> int:
        """Tokens remembered so far."""

    def span(self, tokens: int) -> Span:
        """Where so many further tokens stand, behind those remembered."""


class Stack(nn.Module):
    """Layers one after the other; with pre-norm, a last norm after them (the residual stream is never normalised)."""

    def __init__(self, model: ModelSection, num_layers: int, *, causal: bool, cross_attention: bool = False) -> None:
        super().__init__()
        self.positions = attention_positions(model, bidirectional=not causal)
        self.layers = nn.ModuleList(
            TransformerLayer(model, causal=causal, cross_attention=cross_attention) for _ in range(num_layers)
        )
        self.final_norm = build_norm(model) if model.norm_placement == "pre" else nn.Identity()

    def forward(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding_mask: Tensor | None = None,
        cache: StackCache | None = None,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Run the layers in order.

        Shape:
            x: (B, T, D), embedded tokens; with a cache, behind those it remembers
            memory: (B, S, D), the encoder's output
            self_weights, cross_weights: receive a (B, H, T, S) a layer
            returns: (B, T, D)
        """
        length = x.shape[1]
        positions = self.positions(span_of(length, cache))
        remembered = 0 if cache is None else cache.length
        first, explicit = self.layers[0], self_weights is not None
        assert isinstance(first, TransformerLayer)
        mask = first.attention.mask_of_pass(  # depends on no layer, and is built once for all
            padding_mask, length, remembered + length, bias=positions.bias, explicit=explicit, device=x.device
        )
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                padding_mask=padding_mask,
                mask=mask,
                memory=memory,
                memory_padding_mask=memory_padding_mask,
                positions=positions,
                cache=cache.layers[index] if cache is not None else None,
                self_weights=self_weights,
                cross_weights=cross_weights,
            )
        return self.final_norm(x)


def span_of(tokens: int, cache: StackCache | None) -> Span:
    """Where the tokens of a pass stand: at the beginning, or behind what a cache remembers."""
    return Span(0, tokens) if cache is None else cache.span(tokens)
