"""A stack of layers: what encoders and decoders are made of."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from tfcli.layers.layer import LayerCache, TransformerLayer
from tfcli.layers.norms import build_norm
from tfcli.layers.rotary import Rotation, rotation
from tfcli.recipe.model import ModelSection


class StackCache(Protocol):
    """What a stack remembers between the steps of a generation."""

    layers: Sequence[LayerCache]

    @property
    def length(self) -> int:
        """Positions remembered so far."""


class Stack(nn.Module):
    """`num_layers` layers; with pre-norm, a last norm after them (the residual stream itself is never normalised)."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, model: ModelSection, *, causal: bool, cross_attention: bool = False) -> None:
        super().__init__()
        self.rotary = model.positions == "rotary"
        if self.rotary:
            cosines, sines = rotation(torch.arange(model.max_seq_len), model.size_per_head, model.position_base)
            self.register_buffer("cosines", cosines, persistent=False)
            self.register_buffer("sines", sines, persistent=False)
        self.layers = nn.ModuleList(
            TransformerLayer(model, causal=causal, cross_attention=cross_attention) for _ in range(model.num_layers)
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
            x: (B, T, D), embedded tokens; the first stands at position `cache.length`
            memory: (B, S, D), the encoder's output
            self_weights, cross_weights: receive a (B, H, T, S) a layer
            returns: (B, T, D)
        """
        offset = cache.length if cache is not None else 0
        turned = self._rotation(offset, offset + x.shape[1])
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                padding_mask=padding_mask,
                memory=memory,
                memory_padding_mask=memory_padding_mask,
                rotation=turned,
                cache=cache.layers[index] if cache is not None else None,
                self_weights=self_weights,
                cross_weights=cross_weights,
            )
        return self.final_norm(x)

    def _rotation(self, start: int, end: int) -> Rotation | None:
        if not self.rotary:
            return None
        assert end <= len(self.cosines), f"position {end - 1} is beyond the context of {len(self.cosines)}"
        return self.cosines[start:end], self.sines[start:end]
