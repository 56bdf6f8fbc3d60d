"""Interventions: a model run again with the output of one part replaced, for many replacements at once.

Everything before the part is taken from a pass that has been recorded, so that a replacement costs the layers behind it
alone (Vig et al. 2020, section 3.2; Heimersheim and Nanda 2024, section 2). A head is replaced by what it mixes, before
Wᵒ: its pattern and its values can then be those of two different texts.
Shape legend: B replacements, T tokens of the side that is replaced, S of the other, D model, H heads, Dh head size.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.passes import AttentionPass, LayerPass, ModelPass, StackPass
from tfcli.layers.attention import Span, explicit_attention
from tfcli.models.transformer import EncoderDecoder, Stack, Transformer

Side = Literal["encoder", "decoder"]
# What writes into the residual stream; "residual": the stream itself, as it enters the layer.
Sublayer = Literal["residual", "attention", "cross_attention", "feed_forward"]
Place = Literal[Sublayer, "heads", "cross_heads"]  # its output, or what all heads of one have mixed, side by side
_ATTENTIONS: tuple[tuple[Place, Place], ...] = (("attention", "heads"), ("cross_attention", "cross_heads"))
# Computed at once whatever the text, the bounds of memory: tokens of both sides, and scores of an attention.
TOKENS_AT_A_TIME, SCORES_AT_A_TIME = 1 << 12, 1 << 24


def sides(passed: ModelPass) -> dict[Side, StackPass]:
    """The stacks that there are, the encoder first."""
    found = {side: getattr(passed, side) for side in get_args(Side)}
    return {side: stack for side, stack in found.items() if stack is not None}


def attention_of(layer: LayerPass, place: str) -> AttentionPass:
    """The attention that a place of a layer, not the feed-forward, is in."""
    one = layer.cross if place.startswith("cross") else layer.attention
    assert one is not None
    return one


def given(layer: LayerPass, place: Place) -> Tensor:
    """What a place of a layer has in a recorded pass, (T, D) or (T, H · Dh)."""
    if place == "residual":
        return layer.before
    if place == "feed_forward":
        return layer.feed_forward
    one = attention_of(layer, place)
    return one.mixed.transpose(0, 1).flatten(1) if place.endswith("heads") else one.output


class Part(NamedTuple):
    """A place of a layer, from 0, on a side."""

    side: Side
    layer: int
    place: Place


def heads_of(kind: AttentionKind, layer: int) -> Part:
    """The heads of an attention of a kind."""
    return Part(
        "encoder" if kind == "encoder_self" else "decoder", layer, "cross_heads" if kind == "cross" else "heads"
    )


def texts_at_a_time(passed: ModelPass) -> int:
    """How many replacements are computed at once."""
    tokens = sum(len(one.hidden) for one in sides(passed).values())
    first = [one for kind in get_args(AttentionKind) for one in passed.attentions(kind)[:1]]
    scores = max(len(one.query) * len(one.x) * len(one.memory) for one in first)
    return max(1, min(TOKENS_AT_A_TIME // tokens, SCORES_AT_A_TIME // scores))


def rerun(model: Transformer, passed: ModelPass, part: Part, values: Tensor) -> Tensor:
    """The last vectors, (B, T, D) of the side that the head reads, where a part has `values`, (B, T, D) or (B, T, H ·
    Dh) of its side, and everything before it is as in `passed`, one text. The residual stream that the layer behind the
    last one would read is what leaves the last."""
    stack, found = stack_of(model, part.side), list[Tensor]()
    memory = passed.encoder.hidden[None] if passed.encoder is not None and part.side == "decoder" else None
    for some in values.split(texts_at_a_time(passed)):
        if part.place == "residual":
            x = _from_layer(stack, some, part.layer, memory)
        else:
            with hook(stack.layers[part.layer], part.place, some):
                x = _from_layer(stack, sides(passed)[part.side].layers[part.layer].before[None], part.layer, memory)
        if part.side == "encoder" and isinstance(model, EncoderDecoder):
            assert passed.decoder is not None
            x = _from_layer(model.decoder, passed.decoder.embedded.expand(len(x), -1, -1), 0, x)
        found.append(x)
    return torch.cat(found)


def unchanged(model: Transformer, passed: ModelPass) -> Iterator[Tensor]:
    """The last vectors, (3, T, D), each side computed again with nothing replaced: only rounding moves them."""
    for side, stack in sides(passed).items():
        yield rerun(model, passed, Part(side, 0, "residual"), stack.embedded.repeat(3, 1, 1))


def frozen_pass(
    model: Transformer, passed: ModelPass, sender: Part, values: Tensor
) -> tuple[dict[Part, Tensor], Tensor]:
    """A pass in which the `sender` has `values`, (T, H · Dh), and every later sublayer gives what it gave in `passed`.

    Returns what each later part would have given for the change that reaches it directly, (T, D), or of heads (T, H ·
    Dh), and the last vectors, (1, T, D), which no later part has changed (Wang et al. 2023, figure 12).
    """
    told: dict[Part, Tensor] = {}

    def tell(part: Part, _: Any, inputs: tuple[Tensor, ...], output: Tensor | None = None) -> None:
        told[part] = (inputs[0] if output is None else output)[0]

    def send(*_: Any) -> tuple[Tensor]:
        told.clear()  # what came before the sender is no later part
        return (values[None],)

    with ExitStack() as hooks:
        for side, stack in sides(passed).items():
            for number, one in enumerate(stack.layers):
                layer: Any = stack_of(model, side).layers[number]
                for sublayer, heads in _ATTENTIONS[: 1 + (one.cross is not None)]:
                    part, output = Part(side, number, heads), getattr(layer, sublayer).output
                    own = send if part == sender else partial(tell, part)
                    hooks.enter_context(output.register_forward_pre_hook(own))
                    if part != sender:
                        hooks.enter_context(hook(layer, sublayer, given(one, sublayer)[None]))
                part = Part(side, number, "feed_forward")
                hooks.enter_context(layer.feed_forward.register_forward_hook(partial(tell, part)))
                hooks.enter_context(hook(layer, "feed_forward", given(one, "feed_forward")[None]))
        hidden = None
        for side, stack in sides(passed).items():
            hidden = _from_layer(stack_of(model, side), stack.embedded[None], 0, hidden)
    assert hidden is not None
    return told, hidden


def stack_of(model: Transformer, side: Side) -> Stack:
    """The stack of a side."""
    stack = getattr(model, side) if isinstance(model, EncoderDecoder) else model.stack
    assert isinstance(stack, Stack)
    return stack


def _from_layer(stack: Stack, x: Tensor, first: int, memory: Tensor | None) -> Tensor:
    """The stack from a layer on."""
    positions = stack.positions(Span(0, x.shape[1]))
    for layer in stack.layers[first:]:
        x = layer(x, memory=memory, positions=positions)
    return stack.final_norm(x)


def hook(layer: Any, place: Place, values: Tensor) -> Any:
    """Give `values` instead of what a place of the layer gives; to be removed by leaving its context."""
    read = {"residual": "", "heads": "attention.output", "cross_heads": "cross_attention.output"}
    if place in read:
        return layer.get_submodule(read[place]).register_forward_pre_hook(lambda module, inputs: (values,))
    return layer.get_submodule(place).register_forward_hook(lambda module, inputs, output: values)


def by_head(own: Tensor, new: Tensor, heads: Tensor | None = None) -> Tensor:
    """One head after the other replaced, or those of these numbers, as Wᵒ reads them: own (H, T, Dh), new as own or as
    Wᵒ reads it, (T, H · Dh) → (heads, T, H · Dh)."""
    new = new.unflatten(-1, (len(own), -1)).transpose(0, 1) if new.dim() == 2 else new
    at = torch.eye(len(own), dtype=torch.bool, device=own.device)[..., None, None]
    return torch.where(at if heads is None else at[heads], new, own).transpose(1, 2).flatten(2)


def remixed(layer: Any, kind: AttentionKind, one: AttentionPass, value: Tensor) -> Tensor:
    """What the weights of a pass, computed again, mix of other values. Shape: value (H, S, Dh); returns (H, T, Dh)."""
    scores = (layer.cross_attention if kind == "cross" else layer.attention).score(one.query[None], one.key[None])
    return explicit_attention(scores if one.bias is None else scores + one.bias, value[None], one.mask)[0][0]
