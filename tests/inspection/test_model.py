"""The diagram of a model: every parameter in one box, and the shapes of the formula."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models.small import section
from tests.models.strategies import sections
from tfcli.inspection.model import Block, ModelRecord
from tfcli.inspection.model.compute import model_diagram
from tfcli.models.build import meta_model
from tfcli.models.presets import PRESETS, preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection


def shapes(block: Block) -> dict[str, tuple[int, ...]]:
    return {matrix.name: matrix.shape for matrix in block.matrices}


def in_boxes(record: ModelRecord) -> int:
    """The parameters of all boxes."""
    blocks = sum(block.parameters for block in (*record.embeddings, record.head))
    for stack in record.stacks:
        own = (stack.positions, stack.final_norm)
        blocks += stack.num_layers * stack.layer_parameters + sum(
            block.parameters for block in own if block is not None
        )
    return blocks


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_the_boxes_hold_every_parameter_once(wanted: ModelSection):
    record = model_diagram(wanted)
    assert in_boxes(record) == record.parameters == meta_model(wanted).num_parameters()
    assert sum(group.parameters for group in record.groups) == record.parameters


@pytest.mark.parametrize(("name", "published"), [("gpt2", 124_439_808), ("llama", 6_738_415_616)])
def test_published_sizes(name: str, published: int):
    """GPT-2's 50,257 words make 124M parameters, Llama's 32,000 make the "7B"; nothing of that size is allocated."""
    words = {"gpt2": 50_257, "llama": 32_000}[name]
    record = model_diagram(build_recipe(preset(name), {"model": {"vocab_size": words}}).model)
    assert in_boxes(record) == record.parameters == published


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_drawn(name: str):
    record = model_diagram(build_recipe(preset(name), {"model": {"vocab_size": 100}}).model)
    assert in_boxes(record) == record.parameters


def test_matrices_have_the_shapes_of_the_formula():
    """D = 16, two heads of 12 with one of keys and values, F = 40: X W^q is D × 24, W^k and W^v are D × 12, W^o is 24 ×
    D, however PyTorch stores them."""
    record = model_diagram(section(head_dim=12, num_kv_heads=1, d_ff=40, attention_bias=True, tie_embeddings=False))
    attention, feed_forward = (sublayer.block for sublayer in record.stacks[0].sublayers)
    assert shapes(attention) == {"W^q": (16, 24), "W^k": (16, 12), "W^v": (16, 12), "W^o": (24, 16)}
    assert [matrix.parameters for matrix in attention.matrices] == [408, 204, 204, 400]
    assert attention.notes[0] == "2 heads of 12, 1 of K and V"
    assert shapes(feed_forward) == {"W gate": (16, 40), "V": (16, 40), "W₂": (40, 16)}
    assert shapes(record.head) == {"U": (16, 11)}


def test_a_tied_matrix_stands_in_one_box_and_is_named():
    record = model_diagram(section("encoder-decoder"))
    source, target = record.embeddings
    assert shapes(source) == {"E tokens": (11, 16)}
    assert (target.matrices, record.head.matrices) == ((), ())
    assert "E: that of the source's embeddings" in target.notes
    assert record.ties == (
        "E of the embeddings is also the matrix of the target's embeddings and of the head: counted once.",
    )
    apart = model_diagram(section("encoder-decoder", share_embeddings=False))
    assert apart.ties == ("E of the target is also the matrix of the head: counted once.",)


def test_norms_stand_where_the_recipe_places_them():
    pre, post = (model_diagram(section(norm_placement=placement)).stacks[0] for placement in ("pre", "post"))
    assert [sublayer.placement for sublayer in pre.sublayers] == ["pre", "pre"]
    assert pre.final_norm is not None and pre.final_norm.parameters == 16
    assert [sublayer.placement for sublayer in post.sublayers] == ["post", "post"]
    assert post.final_norm is None
    assert [one.block.kind for one in model_diagram(section("encoder-decoder")).stacks[1].sublayers] == [
        "attention",
        "cross_attention",
        "feed_forward",
    ]


def test_without_a_causal_mask_a_window_is_on_both_sides():
    """A window of w tokens: w − 1 before, oneself and, where the future is not hidden, w − 1 after."""
    for architecture, seen in (("decoder", 3), ("encoder", 5)):
        attention = model_diagram(section(architecture, sliding_window=3)).stacks[0].sublayers[0].block
        assert f"window: the {seen} nearest tokens alone" in attention.notes
