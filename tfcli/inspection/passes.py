"""Activations of one pass of a model, kept by hooks: what each module took and gave, under the lectures' names.

Nothing is computed a second time: the values are those that the model itself computes on the explicit path.
Shape legend: T queries, S keys, D model, H heads, Hkv key-value heads, Dh size of a head, F feed-forward.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tfcli.inspection.attention import AttentionKind
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.masks import attention_mask
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.models.transformer import EncoderDecoder, Stack, Transformer


@dataclass(frozen=True)
class AttentionPass:
    """One multi-head attention on one text.

    Shape:
        x: (T, D), what queries are projected from; memory: (S, D), what keys are; value_source: (S, D), what values are
        query: (H, T, Dh) and key: (H, S, Dh), normalised and turned by their positions as the recipe has it; groups
            share keys, which are repeated
        value: (H, S, Dh)
        bias: (H, T, S), what positions add to the scores; None: nothing
        scores: (H, T, S), with the bias, before the mask
        mask: (T, S), True = may attend
        weights: (H, T, S)
        mixed: (H, T, Dh), weights times values
        output: (T, D)
    """

    x: Tensor
    memory: Tensor
    value_source: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    scores: Tensor
    mask: Tensor
    weights: Tensor
    mixed: Tensor
    output: Tensor


@dataclass(frozen=True)
class LayerPass:
    """One layer on one text: the residual stream between its sublayers, and what happens inside them.

    Shape:
        before: (T, D), what enters
        after_attention: (T, D); after_cross: (T, D), None without cross-attention
        feed_forward_input: (T, D), normalised where the norm comes before; inner: (T, F); feed_forward: (T, D)
        after: (T, D), what leaves
    """

    before: Tensor
    attention: AttentionPass
    after_attention: Tensor
    cross: AttentionPass | None
    after_cross: Tensor | None
    feed_forward_input: Tensor
    inner: Tensor
    feed_forward: Tensor
    after: Tensor


@dataclass(frozen=True)
class StackPass:
    """A stack on one text.

    Shape:
        embedded: (T, D), what enters the first layer
        hidden: (T, D), what leaves, behind the last norm where there is one
    """

    embedded: Tensor
    layers: tuple[LayerPass, ...]
    hidden: Tensor


@dataclass(frozen=True)
class ModelPass:
    """A model on one text; an encoder or a decoder has one of the two stacks."""

    encoder: StackPass | None
    decoder: StackPass | None

    @property
    def last(self) -> StackPass:
        """The stack that the head reads."""
        stack = self.decoder or self.encoder
        assert stack is not None
        return stack

    def attentions(self, kind: AttentionKind) -> list[AttentionPass]:
        """Every layer's attention of a kind."""
        stack = self.encoder if kind == "encoder_self" else self.decoder
        layers = () if stack is None else stack.layers
        found = [layer.cross if kind == "cross" else layer.attention for layer in layers]
        return [one for one in found if one is not None]


class _Call(NamedTuple):
    """What a module took and gave."""

    inputs: tuple[Any, ...]
    output: Any


_Calls = dict[str, _Call]


def record_model(model: Transformer, inputs: Sequence[Tensor]) -> ModelPass:
    """Run `model.hidden` and keep everything.

    Shape:
        inputs: what `hidden` takes, each (1, T)
    """
    kinds: dict[str, list[Tensor]] = {}
    with _listening(model) as calls:
        model.hidden(*inputs, weights=kinds)
    if isinstance(model, EncoderDecoder):
        encoder = _stack_pass(model.encoder, "encoder", calls, kinds["encoder_self"])
        decoder = _stack_pass(model.decoder, "decoder", calls, kinds["decoder_self"], kinds["cross"])
        return ModelPass(encoder, decoder)
    assert isinstance(model.stack, Stack)
    [(kind, weights)] = kinds.items()
    stack = _stack_pass(model.stack, "stack", calls, weights)
    return ModelPass(stack, None) if kind == "encoder_self" else ModelPass(None, stack)


def record_attention(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor | None = None, positions: PositionSignal = NO_SIGNAL
) -> AttentionPass:
    """Run one attention on its own and keep everything.

    Shape:
        x: (1, T, D); memory: (1, S, D), None for self-attention
    """
    weights: list[Tensor] = []
    with _listening(attention) as calls:
        attention(x, memory, positions=positions, weights=weights)
    return _attention_pass(attention, "", calls, positions, weights[0])


@contextmanager
def _listening(root: nn.Module) -> Iterator[_Calls]:
    """The last call of every module below `root`, by its dotted name ("" is the root's own)."""
    calls: _Calls = {}

    def listener(name: str) -> Any:
        def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            calls[name] = _Call(inputs, output)

        return keep

    handles = [module.register_forward_hook(listener(name)) for name, module in root.named_modules()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _stack_pass(
    stack: Stack, name: str, calls: _Calls, weights: list[Tensor], cross: Sequence[Tensor | None] = ()
) -> StackPass:
    positions, layers = calls[f"{name}.positions"].output, []
    for index, (layer, own, across) in enumerate(zip_longest(stack.layers, weights, cross)):
        assert isinstance(layer, TransformerLayer)
        layers.append(_layer_pass(layer, f"{name}.layers.{index}.", calls, positions=positions, own=own, across=across))
    return StackPass(calls[name].inputs[0][0], tuple(layers), calls[name].output[0])


def _layer_pass(
    layer: TransformerLayer, prefix: str, calls: _Calls, positions: PositionSignal, own: Tensor, across: Tensor | None
) -> LayerPass:
    cross = after_cross = None
    if layer.cross_attention is not None and across is not None:
        cross = _attention_pass(layer.cross_attention, f"{prefix}cross_attention.", calls, NO_SIGNAL, across)
        after_cross = calls[f"{prefix}cross_attention_residual"].output[0]
    return LayerPass(
        before=calls[f"{prefix}attention_residual"].inputs[0][0],
        attention=_attention_pass(layer.attention, f"{prefix}attention.", calls, positions, own),
        after_attention=calls[f"{prefix}attention_residual"].output[0],
        cross=cross,
        after_cross=after_cross,
        feed_forward_input=calls[f"{prefix}feed_forward"].inputs[0][0],
        inner=calls[f"{prefix}feed_forward.output"].inputs[0][0],
        feed_forward=calls[f"{prefix}feed_forward"].output[0],
        after=calls[f"{prefix}feed_forward_residual"].output[0],
    )


def _attention_pass(
    attention: MultiHeadAttention, prefix: str, calls: _Calls, positions: PositionSignal, weights: Tensor
) -> AttentionPass:
    (query, key), scores = calls[f"{prefix}score"]
    (combined, *_), output = calls[f"{prefix}output"]
    projected, (x, memory, value_source) = _projected(attention, prefix, calls)
    value = projected.view(1, key.shape[2], attention.num_kv_heads, attention.head_dim).transpose(1, 2)
    bias = None if positions.bias is None else positions.bias[0]
    lengths = query.shape[2], key.shape[2]
    mask = attention_mask(None, *lengths, causal=attention.causal, window=attention.window, device=query.device)
    everywhere = torch.ones(lengths, dtype=torch.bool, device=query.device)
    return AttentionPass(
        x=x,
        memory=memory,
        value_source=value_source,
        query=query[0],
        key=key[0],
        value=value[0].repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=0),
        bias=bias,
        scores=scores[0] if bias is None else scores[0] + bias,
        mask=everywhere if mask is None else mask.expand(1, 1, *lengths)[0, 0],
        weights=weights[0],
        mixed=combined[0].unflatten(-1, (attention.num_heads, attention.head_dim)).transpose(0, 1),
        output=output[0],
    )


def _projected(attention: MultiHeadAttention, prefix: str, calls: _Calls) -> tuple[Tensor, list[Tensor]]:
    """The values of all heads side by side, and what queries, keys and values were projected from; a model that is made
    ready to predict has one matrix for the three.

    Shape:
        returns: (1, S, Hkv · Dh), and (T, D), (S, D), (S, D)
    """
    if attention.joined is not None:
        call = calls[f"{prefix}joined"]
        return call.output.split(attention.widths, dim=-1)[2], [call.inputs[0][0]] * 3
    three = [calls[f"{prefix}{name}"] for name in ("query", "key", "value")]
    return three[2].output, [call.inputs[0][0] for call in three]
