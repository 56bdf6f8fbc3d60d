"""A logit's parts: they sum to it whatever the model is, and each is what its own weights write."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.models.small import VOCAB, inputs, lively, model
from tests.models.strategies import sections
from tfcli.inspection.attribution import Part
from tfcli.inspection.attribution.compute import contributions, decomposed
from tfcli.inspection.passes import record_model
from tfcli.models.head import Head
from tfcli.models.transformer import Transformer

LAST = 4  # of every side


def parts(built: Transformer, token: int, against: int | None = None, position: int = LAST) -> dict[Part, float]:
    """The contributions at a position of the first text."""
    given_ids = [side[:1] for side in inputs(built.section.architecture)]
    assert isinstance(built.head, Head)
    with torch.inference_mode():
        summands = decomposed(built, record_model(built, given_ids), int(given_ids[-1][0, position]), position)
        return {one.part: one.value for one in contributions(built.head, summands, token, against)}


@torch.inference_mode()
def logits(built: Transformer, position: int = LAST) -> Tensor:
    return built(*(side[:1] for side in inputs(built.section.architecture)))[0, position]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    st.sampled_from(("linear", "transform")).flatmap(lambda head: sections(head=head, labels=None, residuals=True)),
    st.integers(0, LAST),
)
def test_the_parts_of_any_model_sum_to_its_logits(section, position):
    """Whatever norms, positions, heads and biases there are: to 1e-9, the model being in float64."""
    built = lively(section)
    own = logits(built, position)
    for token, against in ((0, None), (VOCAB - 1, 3)):
        expected = own[token] - (0.0 if against is None else own[against])
        assert sum(parts(built, token, against, position).values()) == pytest.approx(float(expected), abs=1e-9)


BIASED = {
    "norm": "layernorm",
    "attention_bias": True,
    "feed_forward_bias": True,
    "head_bias": True,
    "positions": "learned",
    "tie_embeddings": False,
}
SILENCED = {
    Part("token"): ("target_embedding.weight", slice(None)),
    Part("position"): ("target_embedding.positions", slice(None)),
    Part("head", 0, 1): ("decoder.layers.0.attention.output.weight", (slice(None), slice(8, 16))),
    Part("cross_head", 1, 0): ("decoder.layers.1.cross_attention.output.weight", (slice(None), slice(0, 8))),
    Part("feed_forward", 1): ("decoder.layers.1.feed_forward.output.weight", slice(None)),
}


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("part", SILENCED, ids=str)
def test_a_part_is_what_its_own_weights_write(part: Part, placement: str):
    """With the weights behind one part at 0, that part alone gives 0."""
    built = model("encoder-decoder", norm_placement=placement, **BIASED)
    before = parts(built, 3)
    assert min(map(abs, before.values())) > 1e-6
    assert len(before) == 2 + 2 * (2 + 2 + 1 + 1) + 1
    name, place = SILENCED[part]
    with torch.no_grad():
        built.get_parameter(name)[place] = 0.0
    after = parts(built, 3)
    assert after.keys() == before.keys()
    assert [one for one, value in after.items() if value == 0.0] == [part]


def test_the_last_parts_by_hand():
    """RMSNorm at the end: a head of the last layer gives (mixed Wᵒ ⊙ gain) · W[token] / √(mean(x²) + ε)."""
    built = model("decoder", num_layers=1, positions="none", head_bias=False)
    [given_ids] = (side[:1] for side in inputs("decoder"))
    with torch.inference_mode():
        passed = record_model(built, [given_ids])
        layer, stack = passed.last.layers[0], built.get_submodule("stack")
        x = layer.after[LAST]
        wide = stack.layers[0].attention.output.weight
        written = wide[:, 8:16] @ layer.attention.mixed[1, LAST]
        scale = 1 / (x.square().mean() + built.section.norm_eps).sqrt()
        expected = (written * scale * stack.final_norm.weight) @ built.head.weight[5]
    assert parts(built, 5)[Part("head", 0, 1)] == pytest.approx(float(expected), abs=1e-12)


def test_biases_stand_apart_and_with_their_layer():
    """Without any, there is no such part; the head's own alone stands outside the layers."""
    assert not [one for one in parts(model("decoder"), 2) if one.kind == "bias"]
    biased = model("decoder", head_bias=True)
    found = parts(biased, 2)
    assert found[Part("bias")] == pytest.approx(biased.head.bias[2].item())
    assert [one for one in found if one.kind == "bias"] == [Part("bias")]
