"""Parameters by group, and what a step is."""

from dataclasses import replace

import pytest

from tests.models.small import section
from tests.support.runs import tiny_recipe
from tfcli.models.build import weightless
from tfcli.models.presets import PRESETS, preset
from tfcli.planning.outline import outline, parameter_groups
from tfcli.recipe.loading import build_recipe
from tfcli.training.assembly import decide_for_machine


def test_the_groups_of_a_decoder_by_hand():
    """D = 16, F = 48, two layers, 11 ids: 11 · 16; 2 · 4 · 16²; 2 · 3 · 16 · 48; 2 · 2 gains of 16; and a last one."""
    groups = {group.name: group for group in parameter_groups(weightless(section(d_ff=48)))}
    assert {name: (group.count, group.parameters) for name, group in groups.items()} == {
        "embedding": (1, 176),
        "attention": (2, 2048),
        "norms": (2, 64),
        "feed-forward": (2, 4608),
        "stack final norm": (1, 16),
    }
    assert ("query.weight", (16, 16)) in groups["attention"].tensors


@pytest.mark.parametrize("name", PRESETS)
def test_the_groups_of_every_preset_hold_all_parameters(name: str):
    model = weightless(replace(build_recipe(preset(name)).model, vocab_size=1000))
    assert sum(group.parameters for group in parameter_groups(model)) == model.num_parameters()


@pytest.mark.parametrize(("architecture", "sides"), [("decoder", 1), ("encoder", 1), ("encoder-decoder", 2)])
def test_a_step_counts_all_micro_batches_and_both_sides(architecture: str, sides: int):
    recipe = tiny_recipe(architecture, {"model": {"vocab_size": 50}, "train": {"grad_accumulation": 3}}).resolved()
    one = outline(replace(recipe, train=decide_for_machine(recipe.model, recipe.train)), vocab_size_is_most=False)
    assert one.sequences == 4 * 3
    assert one.tokens == 12 * one.context * sides * one.steps
    assert one.flops_per_token == pytest.approx(one.flops_per_step * one.steps / one.tokens, abs=1)
