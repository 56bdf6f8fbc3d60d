"""Parameters by group."""

from dataclasses import replace

import pytest

from tests.models.small import section
from tfcli.inspection.model.compute import parameter_groups
from tfcli.models.build import meta_model
from tfcli.models.presets import PRESETS, preset
from tfcli.recipe.loading import build_recipe


def test_the_groups_of_a_decoder_by_hand():
    """D = 16, F = 48, two layers, 11 ids: 11 · 16; 2 · 4 · 16²; 2 · 3 · 16 · 48; 2 · 2 gains of 16; and a last one."""
    groups = {group.name: group for group in parameter_groups(meta_model(section(d_ff=48)))}
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
    model = meta_model(replace(build_recipe(preset(name)).model, vocab_size=1000))
    assert sum(group.parameters for group in parameter_groups(model)) == model.num_parameters()
