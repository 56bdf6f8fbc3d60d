"""What a forward pass costs: by hand, and as PyTorch counts operations, parameters and results."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.models.small import ARCHITECTURES, section
from tests.models.strategies import CONTEXT, sections
from tfcli.inspection.cost import CostRecord
from tfcli.inspection.cost.compute import FLOAT, model_cost, part_parameters, run_explicitly
from tfcli.models.build import build_model, meta_model
from tfcli.models.flops import flops_by_part
from tfcli.models.presets import PRESETS, preset, size
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection


def of_preset(name: str, *sizes: dict[str, Any]) -> ModelSection:
    return replace(build_recipe(preset(name), *sizes).model, vocab_size=1000)


def by_name(record: CostRecord, what: str) -> dict[str, int]:
    return {part.name: getattr(part, what) for part in record.parts}


class Products(TorchDispatchMode):
    """Adds up the numbers that matrix products give."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            self.numbers += result.numel()
        return result


def numbers_made(wanted: ModelSection, length: int) -> int:
    """Of the products, as they are made, and of the embedded tokens of both sides."""
    with Products() as products, torch.device("meta"):
        run_explicitly(meta_model(wanted), torch.zeros(2, length, dtype=torch.long))
    sides = 2 if wanted.architecture == "encoder-decoder" else 1
    return products.numbers + sides * 2 * length * wanted.d_model


def test_one_layer_by_hand():
    """D = 4, one head of 4, F = 16, 10 words, 2 tokens. Q, K, V: 3 · 2 · 2·4·4 = 192; scores and mixing: 2·2·2·4 = 32
    each; W^o: 64; feed-forward: 2 · 2·2·4·16 = 512; head: 2·2·4·10 = 160. The mask hides one of 4 pairs."""
    wanted = ModelSection(vocab_size=10, max_seq_len=8, d_model=4, num_layers=1, num_heads=1, activation="relu")
    record = model_cost(wanted, 2)
    assert by_name(record, "flops") == {
        "embeddings": 0,
        "projections": 192,
        "scores": 32,
        "mixing": 32,
        "output": 64,
        "feed_forward": 512,
        "head": 160,
        "norms": 0,
    }
    assert by_name(record, "parameters") == {
        "embeddings": 40,
        "projections": 48,
        "scores": 0,
        "mixing": 0,
        "output": 16,
        "feed_forward": 128,
        "head": 0,
        "norms": 12,
    }
    assert by_name(record, "bytes_made") == {
        "embeddings": 32,
        "projections": 96,
        "scores": 16,
        "mixing": 32,
        "output": 32,
        "feed_forward": 160,
        "head": 80,
        "norms": 0,
    }
    [at] = [one for one in record.lengths if one.length == 2]
    assert (at.flops, at.visible_flops, at.cache_bytes) == (992, 992 - 16, 2 * 2 * 4 * FLOAT)
    assert record.flops == record.counted_flops == 992


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_counted_as_pytorch_counts_it(name: str):
    """With weights, at a tiny size: what is counted of shapes alone is counted."""
    tiny = of_preset(name, size("tiny"), {"model": {"num_layers": 1}})
    with FlopCounterMode(display=False) as counter:
        run_explicitly(build_model(tiny).eval(), torch.zeros(1, 5, dtype=torch.long))
    record = model_cost(tiny, 5)
    assert counter.get_total_flops() == record.counted_flops == record.flops
    assert sum(part.parameters for part in record.parts) == record.parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_at_its_own_size(name: str):
    record = model_cost(of_preset(name))
    assert record.flops == record.counted_flops
    assert sum(part.parameters for part in record.parts) == record.parameters


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_whatever_the_variant(wanted: ModelSection):
    assert wanted.max_seq_len == CONTEXT
    record = model_cost(wanted, 7, 2)
    assert record.flops == record.counted_flops
    assert sum(part.parameters for part in record.parts) == record.parameters == meta_model(wanted).num_parameters()
    made = sum(part.bytes_made for part in record.parts)
    assert made == FLOAT * numbers_made(wanted, 7)
    [at] = [one for one in record.lengths if one.length == 7]
    assert (at.flops, at.bytes_made, at.visible_flops) == (record.flops, made, flops_by_part(wanted, 2, 7).total)


def test_longer_than_the_context_is_counted_too():
    learned = section(positions="learned", max_seq_len=4)
    assert model_cost(learned, 9).flops == model_cost(learned, 9).counted_flops
    assert model_cost(learned, 9).parameters == meta_model(learned).num_parameters()


def test_scores_and_mixing_overtake_at_six_times_d():
    """F = 4 D without a gate: 24 D² N = 4 D N² at N = 6 D = 96, and both are equal there."""
    record = model_cost(section(d_ff=64, activation="relu"), 96)
    [at] = [one for one in record.lengths if one.length == 96]
    assert record.crossover == 96
    assert at.projections + at.feed_forward == at.scores_and_mixing
    assert record.lengths[-1].length >= 2 * 96


@contextmanager
def keys_and_values(model: torch.nn.Module) -> Iterator[list[int]]:
    """Counts the numbers of every key and value of a decoder's attentions."""
    found: list[int] = []
    handles = [
        module.register_forward_hook(lambda _, __, output: found.append(output.numel()))
        for name, module in model.named_modules()
        if name.endswith((".key", ".value")) and not name.startswith("encoder.")
    ]
    yield found
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_cache_holds_the_keys_and_values_of_a_decoder(architecture: str):
    wanted = section(architecture, num_kv_heads=1)
    [at] = [one for one in model_cost(wanted, 7, 2).lengths if one.length == 7]
    model = meta_model(wanted)
    with keys_and_values(model) as found, torch.device("meta"):
        run_explicitly(model, torch.zeros(2, 7, dtype=torch.long))
    assert at.cache_bytes == (0 if architecture == "encoder" else FLOAT * sum(found))


def test_an_untied_head_owns_its_matrix():
    tied, own = section(), section(tie_embeddings=False)
    assert part_parameters(own)["head"] == 11 * 16
    assert "head" not in part_parameters(tied)
