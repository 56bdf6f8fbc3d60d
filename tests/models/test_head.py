"""Heads: tying, biases, scales, the transform before the logits, and the head that is none."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection

from .small import ARCHITECTURES, VOCAB, count, ids, inputs, model, section


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tied_embeddings_are_one_matrix_that_counts_once(architecture: str):
    tied, untied = (build_model(section(architecture, tie_embeddings=tie)) for tie in (True, False))
    assert tied.head.weight is tied.embedding.weight
    assert untied.num_parameters() - tied.num_parameters() == 11 * 16
    assert tied.num_parameters() == count(tied)


def test_three_way_tying_is_one_storage():
    """Source, target and logits (Vaswani et al. 2017, 3.4): 11 · 16 numbers, once."""
    built = build_model(section("encoder-decoder"))
    assert built.embedding.weight is built.target_embedding.weight is built.head.weight
    of_vocabulary = {p.data_ptr() for p in built.parameters() if p.shape == (VOCAB, 16)}
    assert len(of_vocabulary) == 1
    saved = {name for name, tensor in built.state_dict().items() if tensor.shape == (VOCAB, 16)}
    assert saved == {"embedding.weight", "target_embedding.weight", "head.weight"}


@pytest.mark.parametrize(
    ("share", "tie", "matrices"), [(True, True, 1), (True, False, 2), (False, True, 2), (False, False, 3)]
)
def test_what_is_not_shared_is_a_matrix_of_its_own(share: bool, tie: bool, matrices: int):
    """Each has a storage, an initial value and a gradient of its own; the head is tied to the target's side."""
    built = build_model(section("encoder-decoder", share_embeddings=share, tie_embeddings=tie))
    assert (built.embedding.weight is built.target_embedding.weight) == share
    assert (built.target_embedding.weight is built.head.weight) == tie
    of_vocabulary = [p for p in built.parameters() if p.shape == (VOCAB, 16)]
    assert len(of_vocabulary) == len({p.data_ptr() for p in of_vocabulary}) == matrices
    assert len({p.sum().item() for p in of_vocabulary}) == matrices
    built(*inputs("encoder-decoder")).pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in of_vocabulary)


def test_sides_that_do_not_share_read_their_own_matrix():
    """Without target tokens' rows the source is encoded all the same."""
    built = model("encoder-decoder", share_embeddings=False)
    source = ids()
    before = built.encode(source)
    with torch.no_grad():
        built.target_embedding.weight.zero_()
    torch.testing.assert_close(built.encode(source), before, atol=0, rtol=0)
    with torch.no_grad():
        built.embedding.weight.zero_()
    assert not torch.allclose(built.encode(source), before)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_logits_are_products_with_the_rows_of_a_matrix(architecture: str, tie: bool, scaled: bool, bias: bool):
    """h Wᵀ + b; h over √16 = 4 where logits are scaled, and the bias not."""
    built = model(architecture, tie_embeddings=tie, scale_logits=scaled, head_bias=bias)
    batch = inputs(architecture)
    h = built.hidden(*batch)
    expected = (h / 4 if scaled else h) @ built.head.weight.T
    torch.testing.assert_close(built(*batch), expected + built.head.bias if bias else expected)
    assert ("head.bias" in dict(built.named_parameters())) == bias


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("gelu_tanh", lambda u: F.gelu(u, approximate="tanh")),
        ("swiglu", F.silu),  # of a gated kind, the gate's
    ],
)
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_a_transform_comes_before_the_logits(activation: str, function: Any, norm: str):
    """norm(f(h W + b)) Eᵀ + b, with PyTorch's own modules. The dense layer always has a bias."""
    built = model("encoder", head="transform", activation=activation, norm=norm, head_bias=True)
    linear = nn.Linear(16, 16, dtype=torch.float64)
    linear.load_state_dict(built.head.transform.state_dict())
    reference = (nn.LayerNorm if norm == "layernorm" else nn.RMSNorm)(16, eps=1e-5, dtype=torch.float64)
    reference.load_state_dict(built.head.norm.state_dict())
    h = built.hidden(ids())
    expected = reference(function(linear(h))) @ built.embedding.weight.T + built.head.bias
    torch.testing.assert_close(built(ids()), expected)


def test_a_scaled_transform_is_scaled_after_its_norm():
    plain, scaled = (model("decoder", head="transform", scale_logits=on) for on in (False, True))
    torch.testing.assert_close(scaled(ids()), plain(ids()) / 4)


@pytest.mark.parametrize(("architecture", "kind"), [("encoder", "transform"), ("decoder", "linear")])
def test_a_model_without_a_head_represents_and_predicts_nothing(architecture: str, kind: str):
    """Its vectors are those of the same model with a head; logits are refused, and the remedy named."""
    built, other = model(architecture, head="none"), model(architecture)
    assert not [name for name in built.state_dict() if name.startswith("head")]
    torch.testing.assert_close(built.hidden(ids()), other.hidden(ids()))
    with pytest.raises(UsageError, match=rf"model\.head = 'none'.*--set model\.head={kind}"):
        built(ids())


def test_an_encoder_decoder_needs_a_head():
    with pytest.raises(UsageError, match=r"model\.head = 'none' .*'linear' or 'transform'"):
        ModelSection(architecture="encoder-decoder", head="none")


@pytest.mark.parametrize("setting", ["head_bias", "scale_logits"])
def test_without_a_head_there_are_no_logits_to_change(setting: str):
    with pytest.raises(UsageError, match="has no logits"):
        ModelSection(architecture="encoder", head="none", **{setting: True})


def test_concatenated_positions_cannot_be_tied():
    """A token's own part is smaller than what the head reads."""
    with pytest.raises(UsageError, match=r"12 numbers and the head reads 16.*model\.tie_embeddings = false"):
        section(positions="learned", position_merge="concat")
    assert model("encoder", positions="learned", position_merge="concat", head="none").embedding.weight.shape == (
        VOCAB,
        12,
    )
