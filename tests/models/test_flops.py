"""Operations of the matrix products: by hand, and as PyTorch counts them on the explicit path."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.utils.flop_counter import FlopCounterMode

from tfcli.models.build import build_model
from tfcli.models.flops import flops_by_part, training_flops
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection

from .small import ARCHITECTURES, ids, section
from .strategies import sections

SOURCE, TARGET = 7, 5


def forward_flops(*sizes: Any, **how: Any) -> int:
    return flops_by_part(*sizes, **how).total


def counted(wanted: ModelSection, *, backward: bool = False) -> int:
    """What PyTorch counts in a model of two sequences that returns its weights, so that nothing is fused."""
    model = build_model(wanted)
    read = model.hidden if wanted.head == "none" else model
    sides = [ids(length=SOURCE)]
    if wanted.architecture == "encoder-decoder":
        sides.append(ids(length=TARGET, seed=1))
    with FlopCounterMode(display=False) as counter:
        output = read(*sides, weights={})
        if backward:
            output.sum().backward()
    return counter.get_total_flops()


def masked_away(wanted: ModelSection) -> int:
    """What the explicit path computes for keys that the mask then hides; counted one by one."""
    window = wanted.sliding_window or 100

    def hidden(length: int, causal: bool) -> int:
        pairs = [(q, k) for q in range(length) for k in range(length)]
        return sum(abs(q - k) >= window or (causal and k > q) for q, k in pairs)

    if wanted.architecture == "encoder-decoder":
        pairs = wanted.num_layers * hidden(SOURCE, False) + wanted.decoder_layers * hidden(TARGET, True)
    else:
        pairs = wanted.num_layers * hidden(SOURCE, wanted.architecture == "decoder")
    return 2 * 4 * wanted.num_heads * wanted.size_per_head * pairs


def predicted(wanted: ModelSection) -> int:
    return forward_flops(wanted, 2, SOURCE, target_length=TARGET)


def test_gpt2_by_hand():
    """A token: 12 layers of 4 D² + 8 D² = 84,934,656 weights and V · D = 38,597,376 of the head, two operations each.
    A meeting of a query with a key: 4 D = 3,072 in each of 12 layers; 1024 · 1025 / 2 = 524,800 meetings."""
    gpt2 = replace(build_recipe(preset("gpt2")).model, vocab_size=50_257)
    tokens = 1024 * 2 * (84_934_656 + 38_597_376)
    assert forward_flops(gpt2, 1, 1024) == tokens + 12 * 3_072 * 524_800
    assert forward_flops(gpt2, 3, 1024) == 3 * forward_flops(gpt2, 1, 1024)
    assert training_flops(gpt2, 3, 1024) == 9 * forward_flops(gpt2, 1, 1024)


def test_six_operations_a_weight_are_close_where_the_context_is_short():
    """Kaplan et al.: C ≈ 6 N a token, with N the weights of the layers."""
    gpt2 = replace(build_recipe(preset("gpt2")).model, vocab_size=50_257)
    without_head = training_flops(gpt2, 1, 64, labelled=0) / 64
    assert without_head == pytest.approx(6 * 84_934_656, rel=0.01)


def test_a_window_by_hand():
    """7 causal queries that see 3 keys: 1 + 2 + 3 · 5 = 18 meetings; both ways, 7 + 2 · (6 + 5) = 29."""
    causal = section(sliding_window=3, num_layers=1)
    full = replace(causal, sliding_window=None)
    assert forward_flops(full, 1, 7) - forward_flops(causal, 1, 7) == 4 * 16 * (28 - 18)
    both = replace(causal, architecture="encoder")
    assert forward_flops(replace(full, architecture="encoder"), 1, 7) - forward_flops(both, 1, 7) == 4 * 16 * (49 - 29)


def test_the_head_reads_the_labelled_positions_alone():
    """A position: 2 · 16 · 11 operations; with a transform, 2 · 16² more."""
    plain, transform = section("encoder"), section("encoder", head="transform")
    assert forward_flops(plain, 2, 7) - forward_flops(plain, 2, 7, labelled=3) == 11 * 352
    assert forward_flops(transform, 2, 7, labelled=3) - forward_flops(plain, 2, 7, labelled=3) == 3 * 512


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_as_pytorch_counts_forward_and_backward(architecture: str):
    wanted = section(architecture)
    assert counted(wanted) == predicted(wanted) + masked_away(wanted)
    assert counted(wanted, backward=True) == 3 * counted(wanted)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_as_pytorch_counts_whatever_the_variant(wanted: ModelSection):
    torch.manual_seed(0)
    assert counted(wanted) == predicted(wanted) + masked_away(wanted)
