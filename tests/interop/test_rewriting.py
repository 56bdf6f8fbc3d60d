"""A model written otherwise computes the same: weights are lively, so that any row or column left behind would show."""

from typing import Any

import pytest
import torch

from tests.models.small import ARCHITECTURES, inputs, model
from tfcli.interop.tensors import (
    Rewriting,
    fold_scale,
    fold_score_scale,
    sort_sinusoids,
    write_out_positions,
    zero_output_biases,
)
from tfcli.models.build import ARCHITECTURES as CLASSES
from tfcli.models.transformer import Transformer
from tfcli.runs.weights import model_tensors

EVERYTHING = {
    "norm": "layernorm",
    "embedding_norm": True,
    "attention_bias": True,
    "feed_forward_bias": True,
    "head_bias": True,
    "query_key_norm": True,
    "tie_embeddings": False,
}
VARIANTS: list[dict[str, Any]] = [
    {"norm_placement": "post"},
    {"activation": "relu", "num_heads": 4, "num_kv_heads": 2},
    {"tie_embeddings": True, "head": "transform", "activation": "gelu"},
    {"head_dim": 6, "attention_output_bias": False},
]


def rewritten(ours: Transformer, rewriting: Rewriting) -> Transformer:
    written = rewriting(ours.section, model_tensors(ours))
    assert written is not None
    section, parameters = written
    other = CLASSES[section.architecture](section).double().eval()
    assert model_tensors(other).keys() == parameters.keys()
    with torch.no_grad():
        for name, parameter in model_tensors(other).items():
            parameter.copy_(parameters[name])
    return other


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant)))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sines_before_cosines(architecture: str, variant: dict[str, Any]):
    ours = model(architecture, **{**EVERYTHING, "positions": "sinusoidal", **variant})
    other = rewritten(ours, sort_sinusoids)
    assert other.section.layout == "halves"
    batch = inputs(architecture)
    torch.testing.assert_close(other(*batch), ours(*batch), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_a_factor_becomes_part_of_the_matrix(architecture: str, tied: bool):
    """d_model is 16 and the factor 4, which rounds nothing: equal to the last bit."""
    ours = model(architecture, **{**EVERYTHING, "tie_embeddings": tied, "scale_embeddings": True})
    other = rewritten(ours, fold_scale)
    assert other.section.embedding_scale == 1.0
    assert torch.equal(other(*inputs(architecture)), ours(*inputs(architecture)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_missing_bias_becomes_zeros(architecture: str):
    ours = model(architecture, attention_bias=True, attention_output_bias=False)
    assert torch.equal(rewritten(ours, zero_output_biases)(*inputs(architecture)), ours(*inputs(architecture)))


@pytest.mark.parametrize(
    ("rewriting", "settings"),
    [
        (fold_scale, {"scale_embeddings": False}),
        (zero_output_biases, {"attention_bias": True}),
        (zero_output_biases, {}),
        (sort_sinusoids, {"positions": "rotary"}),
        (sort_sinusoids, {"positions": "sinusoidal", "position_layout": "halves"}),
        (sort_sinusoids, {"positions": "sinusoidal", "position_merge": "query_key"}),
        (sort_sinusoids, {"positions": "sinusoidal", "attention_score": "parameter_free"}),
    ],
)
def test_what_needs_no_rewriting_or_cannot_be_is_left(rewriting: Rewriting, settings: dict[str, Any]):
    ours = model("decoder", **settings)
    assert rewriting(ours.section, model_tensors(ours)) is None


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
@pytest.mark.parametrize("scaled", [False, True])
def test_fixed_positions_become_a_table(positions: str, scaled: bool):
    odd = {"position_offset": 3, "position_scaling": 2.0} if positions == "sinusoidal" else {}
    ours = model("decoder", **{**EVERYTHING, "positions": positions, "scale_embeddings": scaled, **odd})
    other = rewritten(ours, write_out_positions)
    assert other.section.positions == "learned"
    torch.testing.assert_close(other(*inputs("decoder")), ours(*inputs("decoder")), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_scale_of_scores_becomes_part_of_the_queries(architecture: str):
    ours = model(architecture, **{**EVERYTHING, "query_key_norm": False, "head_dim": 6})
    other = rewritten(ours, fold_score_scale)
    torch.testing.assert_close(other(*inputs(architecture)), ours(*inputs(architecture)), atol=1e-10, rtol=1e-10)
    assert fold_score_scale(model(architecture, **EVERYTHING).section, {}) is None
