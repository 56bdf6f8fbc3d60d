"""The transformer: what encoder, decoder and encoder-decoder share."""

from typing import Any

import torch
from torch import Tensor, nn

from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import AttentionPath, MultiHeadAttention
from tfcli.recipe.model import ModelSection

AttentionWeights = dict[str, list[Tensor]]
"""Kind of attention ("encoder_self", "decoder_self", "cross") → a (B, H, T, S) a layer."""


class Transformer(nn.Module):
    """Base of `Encoder`, `Decoder` and `EncoderDecoder`: each has `hidden(…)`, and logits are head(hidden)."""

    head: nn.Module

    def __init__(self, section: ModelSection) -> None:
        super().__init__()
        self.section = section

    def hidden(self, *inputs: Any, **options: Any) -> Tensor:
        """The last vectors, which the head turns into logits; each architecture says what it takes.

        Shape:
            returns: (B, T, D)
        """
        raise NotImplementedError

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """Logits of a token at every position, from what `hidden` takes.

        Shape:
            returns: (B, T, Vocab)
        """
        return self.head(self.hidden(*inputs, **options))

    @property
    def transformer_layers(self) -> list[TransformerLayer]:
        """Those of all stacks."""
        return [module for module in self.modules() if isinstance(module, TransformerLayer)]

    @property
    def attentions(self) -> list[MultiHeadAttention]:
        """Self-attentions and cross-attentions of all layers."""
        return [module for module in self.modules() if isinstance(module, MultiHeadAttention)]

    def use_in_training(self, path: AttentionPath) -> None:
        """Let all attention go that way in training."""
        for attention in self.attentions:
            attention.use_in_training(path)

    def use_gradient_checkpointing(self) -> None:
        """Compute the activations of every layer again for the backward pass."""
        for layer in self.transformer_layers:
            layer.use_gradient_checkpointing()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.parameters()).dtype

    def num_parameters(self) -> int:
        """Numbers that training changes; a tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())


def collector(weights: AttentionWeights | None, kind: str) -> list[Tensor] | None:
    """The list that receives the weights of one kind; None where no weights are wanted."""
    return None if weights is None else weights.setdefault(kind, [])
