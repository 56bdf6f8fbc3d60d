"""What a step is."""

import pytest

from tests.support.runs import tiny_recipe
from tfcli.planning.plan import outline
from tfcli.training.job import resolve_for_machine


@pytest.mark.parametrize(("architecture", "sides"), [("decoder", 1), ("encoder", 1), ("encoder-decoder", 2)])
def test_a_step_counts_all_micro_batches_and_both_sides(architecture: str, sides: int):
    recipe = tiny_recipe(architecture, {"model": {"vocab_size": 50}, "train": {"grad_accumulation": 3}}).resolved()
    one = outline(resolve_for_machine(recipe), vocab_size_is_most=False)
    assert one.sequences == 4 * 3
    assert one.tokens == 12 * one.context * sides * one.steps
    assert one.flops_per_token == pytest.approx(one.flops_per_step * one.steps / one.tokens, abs=1)
