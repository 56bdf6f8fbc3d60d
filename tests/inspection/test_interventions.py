"""Interventions against a second, naive way: one whole pass of the model for each replacement, by hooks of its own."""

from contextlib import ExitStack
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models.small import inputs, lively, model
from tests.models.strategies import sections
from tfcli.generation.kv_cache import DecodingCache
from tfcli.inspection import interventions
from tfcli.inspection.interventions import Part, by_head, frozen_pass, remixed, rerun, sides, stack_of, texts_at_a_time
from tfcli.inspection.interventions import given as value_of
from tfcli.inspection.passes import KINDS, record_model
from tfcli.models.transformer import Transformer

ANY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def texts(built: Transformer) -> tuple[list[Tensor], list[Tensor]]:
    """Two texts of the batch that all tests share, of equal lengths."""
    both = inputs(built.section.architecture)
    return [ids[:1] for ids in both], [ids[1:2] for ids in both]


def modules(built: Transformer, part: Part) -> tuple[nn.Module, bool]:
    """Where a part's value is, and whether it is what goes in."""
    layer: Any = stack_of(built, part.side).layers[part.layer]
    if part.place == "residual":
        return layer, True
    if part.place.endswith("heads"):
        return (layer.attention if part.place == "heads" else layer.cross_attention).output, True
    return layer.get_submodule(part.place), False


def naively(built: Transformer, given_ids: list[Tensor], changes: dict[Part, Any], **how: Any) -> Tensor:
    """One whole pass in which each part's value, (1, T, ·), goes through a function."""
    with ExitStack() as hooks:
        for part, change in changes.items():
            module, goes_in = modules(built, part)
            if goes_in:
                hooks.enter_context(
                    module.register_forward_pre_hook(
                        lambda _, args, kwargs, change=change: ((change(args[0]), *args[1:]), kwargs), with_kwargs=True
                    )
                )
            else:
                hooks.enter_context(module.register_forward_hook(lambda _, args, out, change=change: change(out)))
        return built.hidden(*given_ids, **how)


def seen(built: Transformer, given_ids: list[Tensor], part: Part) -> Tensor:
    """What a part has in a plain pass."""
    kept: list[Tensor] = []
    naively(built, given_ids, {part: lambda value: kept.append(value) or value})
    return kept[0]


def all_parts(built: Transformer) -> list[Part]:
    passed = record_model(built, texts(built)[0])
    return [
        Part(side, layer, place)
        for side, stack in sides(passed).items()
        for layer, one in enumerate(stack.layers)
        for place in ("residual", "attention", "heads", "cross_attention", "cross_heads", "feed_forward")
        if one.cross is not None or not place.startswith("cross")
    ]


@ANY
@given(sections(labels=None), st.data())
@torch.inference_mode()
def test_a_replaced_part_is_what_a_whole_pass_with_hooks_gives(section, data):
    """Any model, any part, every position by itself; float64."""
    built = lively(section)
    one, other = texts(built)
    part = data.draw(st.sampled_from(all_parts(built)))
    base, new = record_model(built, one), seen(built, other, part)[0]
    own = value_of(sides(base)[part.side].layers[part.layer], part.place)
    assert_close(own, seen(built, one, part)[0], rtol=0, atol=1e-9)
    at = torch.eye(len(own), dtype=torch.bool)[..., None]
    ours = rerun(built, base, part, torch.where(at, new, own))
    for position in range(len(own)):

        def change(value: Tensor, position: int = position) -> Tensor:
            changed = value.clone()
            changed[0, position] = new[position]
            return changed

        assert_close(ours[position], naively(built, one, {part: change})[0], rtol=0, atol=1e-6)


@ANY
@given(sections(labels=None), st.data())
@torch.inference_mode()
def test_heads_are_replaced_one_by_one(section, data):
    built = lively(section)
    one, other = texts(built)
    part = data.draw(st.sampled_from([part for part in all_parts(built) if part.place.endswith("heads")]))
    base, source = record_model(built, one), record_model(built, other)
    mixed = [
        (layer.cross if part.place == "cross_heads" else layer.attention).mixed
        for layer in (sides(passed)[part.side].layers[part.layer] for passed in (base, source))
    ]
    ours, heads = rerun(built, base, part, by_head(*mixed)), len(mixed[0])
    new = seen(built, other, part)[0].unflatten(-1, (heads, -1))
    for head in range(heads):

        def change(value: Tensor, head: int = head) -> Tensor:
            changed = value.unflatten(-1, (heads, -1)).clone()
            changed[0, :, head] = new[:, head]
            return changed.flatten(2)

        assert_close(ours[head], naively(built, one, {part: change})[0], rtol=0, atol=1e-6)


@ANY
@given(sections(labels=None))
@torch.inference_mode()
def test_a_pass_without_weights_mixes_what_one_with_them_does(section):
    """Its scores and weights are empty, all else is the same; other values are mixed by the same weights."""
    built = lively(section)
    one, other = (record_model(built, ids) for ids in texts(built))
    bare = record_model(built, texts(built)[0], weights=False)
    for kind in KINDS["encoder-decoder"]:
        side = "encoder" if kind == "encoder_self" else "decoder"
        whole = zip(bare.attentions(kind), one.attentions(kind), other.attentions(kind), strict=True)
        for number, (own, full, two) in enumerate(whole):
            assert [own.scores.numel(), own.weights.numel()] == [0, 0]
            for field in fields(own):
                value = getattr(own, field.name)
                if value is not None and field.name not in ("scores", "weights"):
                    assert_close(value, getattr(full, field.name), rtol=0, atol=0)
            layer = stack_of(built, side).layers[number]
            assert_close(remixed(layer, kind, own, two.value), full.weights @ two.value, rtol=0, atol=1e-9)


@ANY
@given(sections(labels=None), st.data())
@torch.inference_mode()
def test_what_a_head_sends_reaches_later_parts_directly_alone(section, data):
    """Every sublayer but the sender's keeps what it had: the naive pass freezes them, and the receiver's own value in
    it is what path patching then puts into the plain pass."""
    built = lively(section)
    one, other = texts(built)
    parts = all_parts(built)
    sender = data.draw(st.sampled_from([part for part in parts if part.place.endswith("heads")]))
    sublayer = {"heads": "attention", "cross_heads": "cross_attention"}
    own_sublayer = Part(sender.side, sender.layer, sublayer[sender.place])
    base, values = record_model(built, one), seen(built, other, sender)[0]
    told, hidden = frozen_pass(built, base, sender, values)
    places = ("heads", "cross_heads", "feed_forward")
    order = [part for part in parts if part.place in places]
    assert list(told) == order[order.index(sender) + 1 :]
    kept = {part: seen(built, one, part) for part in parts}
    frozen = {
        part: lambda value, part=part: kept[part]
        for part in parts
        if part.place in ("attention", "cross_attention", "feed_forward") and part != own_sublayer
    }
    changes = {**frozen, sender: lambda value: values[None]}
    assert_close(hidden, naively(built, one, changes), rtol=0, atol=1e-6)
    for receiver, value in told.items():
        found: list[Tensor] = []

        def listen(own: Tensor, receiver: Part = receiver, found: list[Tensor] = found) -> Tensor:
            found.append(own)
            return kept[receiver] if receiver.place == "feed_forward" else own

        naively(built, one, {**changes, receiver: listen})
        assert_close(value, found[0][0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "t5"])
@torch.inference_mode()
def test_a_pass_with_a_cache_gives_the_same(positions: str):
    """Token by token, as text is generated, with the part replaced where its position is read."""
    built = model("decoder", positions=positions, num_kv_heads=1)
    [one], [other] = texts(built)
    base, length = record_model(built, [one]), one.shape[1]
    for part in all_parts(built):
        new = seen(built, [other], part)[0]
        own = value_of(sides(base)[part.side].layers[part.layer], part.place)
        at = torch.eye(length, dtype=torch.bool)[..., None]
        ours = rerun(built, base, part, torch.where(at, new, own))
        for position in range(length):
            cache = DecodingCache(built, 1, length)
            for step in range(length):
                change = {part: lambda value, new=new[None, [position]]: new} if step == position else {}
                last = naively(built, [one[:, step : step + 1]], change, cache=cache)
            assert_close(ours[position, -1:], last[0], rtol=0, atol=1e-6)


def test_batches_are_as_large_as_tokens_allow(monkeypatch: pytest.MonkeyPatch):
    """Small batches give what one large batch gives, and none is larger than the bound."""
    built = model("encoder-decoder")
    base = record_model(built, texts(built)[0])
    part = Part("encoder", 0, "residual")
    own = value_of(sides(base)["encoder"].layers[0], "residual").repeat(7, 1, 1) + torch.arange(7.0)[:, None, None]
    whole = rerun(built, base, part, own)
    tokens = sum(len(stack.hidden) for stack in sides(base).values())
    sizes: list[int] = []
    monkeypatch.setattr(interventions, "TOKENS_AT_A_TIME", 2 * tokens)
    with built.decoder.final_norm.register_forward_hook(lambda module, args, out: sizes.append(len(out))):
        assert_close(rerun(built, base, part, own), whole, rtol=0, atol=1e-9)
    assert sizes == [2, 2, 2, 1]
    monkeypatch.setattr(interventions, "TOKENS_AT_A_TIME", 7 * tokens)
    first = base.attentions("encoder_self")[0]
    monkeypatch.setattr(interventions, "SCORES_AT_A_TIME", 3 * first.scores.numel())
    assert texts_at_a_time(base) == 3, "and no more scores of one attention than theirs"
