"""Gradients by layer: as autograd has them for a composition by hand, and what residuals and norms do to them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.cli.commands import tfcli
from tests.models.small import ARCHITECTURES, section
from tfcli.errors import UsageError
from tfcli.inspection.attribution.compute import attribution
from tfcli.inspection.explain.layer import explain_layer
from tfcli.inspection.explain.subject import of_run
from tfcli.inspection.gradients import GradientProfile, GradientsRecord
from tfcli.inspection.gradients.compute import _share, initial_gradients, run_gradients
from tfcli.inspection.passes import read_text
from tfcli.inspection.predictions.compute import lens
from tfcli.layers.layer import TransformerLayer
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run
from tfcli.training.memory import synthetic_batch

DEEP: ModelSection = section(
    num_layers=6, d_ff=32, activation="relu", positions="none", initialization="vaswani2017", norm="layernorm"
)

PAPER = {"d_model": 32, "d_ff": 64, "num_heads": 4, "vocab_size": 64, "activation": "relu", "norm": "layernorm"}
PAPER |= {"positions": "sinusoidal", "initialization": "vaswani2017"}


@pytest.fixture(scope="module")
def deep() -> GradientsRecord:
    return initial_gradients(DEEP)


def profile(record: GradientsRecord, name: str) -> GradientProfile:
    return next(one for one in record.profiles if one.name == name)


def spread(record: GradientsRecord, name: str) -> float:
    norms = profile(record, name).stacks[0].parameters
    return float(norms.max() / norms.min())


def test_the_variants_and_their_names(deep: GradientsRecord):
    assert [one.name for one in deep.profiles] == [
        "pre-norm",
        "post-norm",
        "pre-norm, no residuals",
        "post-norm, no residuals",
        "no norms, no residuals",
    ]
    assert (deep.sequences, deep.labels, deep.text) == (4, 4 * 16, False)


def test_with_residuals_every_layer_gets_a_gradient_and_with_neither_it_vanishes(deep: GradientsRecord):
    assert spread(deep, "pre-norm") < 3
    assert spread(deep, "post-norm") < 5
    bare = profile(deep, "no norms, no residuals").stacks[0]
    assert (np.diff(bare.inputs) > 0).all()  # each layer towards the tokens takes its share
    assert bare.inputs[-1] > 10 * bare.inputs[0]
    own = profile(deep, "pre-norm").stacks[0].inputs
    assert own[0] > own[-1]  # the roads carry it there whole


def test_a_post_norms_gradients_grow_towards_the_loss_and_a_pre_norms_do_not(deep: GradientsRecord):
    """Xiong et al. 2020, figure 3: for weights drawn as Glorot has it."""
    pre, post = (profile(deep, name).stacks[0].parameters for name in ("pre-norm", "post-norm"))
    assert post[-1] / post[0] > pre[-1] / pre[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_norms_are_autograds(architecture: str):
    """Of the last layer of the stack that the head reads, and of what enters it, by torch.autograd.grad."""
    wanted = section(architecture)
    own = profile(initial_gradients(wanted), "pre-norm")
    model = build_model(wanted).double().eval()
    batch = synthetic_batch(wanted, 4, 16, np.random.default_rng(0), mask_probability=0.2)
    entered: list[torch.Tensor] = []
    layer = [module for module in model.modules() if isinstance(module, TransformerLayer)][-1]
    layer.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    sides = [batch.input_ids] + ([] if batch.decoder_input_ids is None else [batch.decoder_input_ids])
    logits = model(*map(torch.as_tensor, sides))
    loss = F.cross_entropy(logits.flatten(0, 1), torch.as_tensor(batch.labels).flatten())
    gradients = torch.autograd.grad(loss, [*layer.parameters(), entered[0]])
    assert own.loss == pytest.approx(float(loss.detach()))
    assert own.stacks[-1].side == ("encoder" if architecture == "encoder" else "decoder")
    together = torch.cat([g.flatten() for g in gradients[:-1]])
    assert own.stacks[-1].parameters[-1] == pytest.approx(float(together.norm()))
    assert own.stacks[-1].inputs[-1] == pytest.approx(float(gradients[-1].norm()))


def test_twelve_layers_pass_gradients_evenly_before_the_sum_and_not_after_it():
    """CS224n, section 3.3, and Xiong et al. 2020, figure 3, in a decoder of the form of Vaswani et al. 2017, which has
    three norms a layer: with these after the sums the first layer gets a small part of the last one's gradient."""
    deep = section("encoder-decoder", **PAPER, num_layers=12)
    record = initial_gradients(deep)
    even, faded = (profile(record, name).stacks[1].parameters for name in ("pre-norm", "post-norm"))
    assert even.max() / even.min() < 3
    assert faded[-1] / faded[0] > 15


@pytest.fixture(scope="module")
def bare() -> GradientsRecord:
    return initial_gradients(section("encoder-decoder", **PAPER, num_layers=8))


def test_what_is_below_rounding_is_no_number(bare: GradientsRecord):
    """Without residuals the encoder's vectors become one vector, exactly, and cross-attention gives all places of the
    decoder the same: its last layer alone has a gradient. In 64 bits the others come out near 1e-16, 1e-32 …"""
    for name in ("pre-norm, no residuals", "post-norm, no residuals"):
        encoder, decoder = profile(bare, name).stacks
        assert np.isfinite(encoder.parameters).all()
        assert np.isnan(decoder.parameters).tolist() == [True] * 7 + [False]
        assert np.isnan(decoder.apart).all()
        assert encoder.apart[0] > 0.1
        assert np.isnan(encoder.apart[-1])
    for name in ("pre-norm", "post-norm"):
        assert all(
            np.isfinite(one).all() for side in profile(bare, name).stacks for one in (side.parameters, side.apart)
        )


def test_a_small_gradient_that_is_known_stays_a_number():
    """With neither norms nor residuals a decoder's gradients shrink by a factor a layer, far below the last one's
    rounding, and each is a product, known to many digits."""
    small = section(num_layers=16, positions="none", initialization="gpt2", init_std=0.005, activation="relu")
    norms = profile(initial_gradients(small), "no norms, no residuals").stacks[0].inputs
    assert np.isfinite(norms).all()
    assert norms[0] < 1e-16 * norms[-1]


def test_a_tokens_own_share_is_that_of_the_layers_output():
    """‖X − 1x̄ᵀ‖ / ‖X‖ of a model run by hand; Dong et al. 2021 name the numerator res(X)."""
    wanted = section(num_layers=2)
    model, batch = build_model(wanted).double().eval(), synthetic_batch(wanted, 4, 16, np.random.default_rng(0))
    left: list[np.ndarray] = []
    for layer in model.transformer_layers:
        layer.register_forward_hook(lambda _, x, y: left.append(y.detach().numpy()))
    model(torch.as_tensor(batch.input_ids))
    own = profile(initial_gradients(wanted), "pre-norm").stacks[0].apart
    for x, share in zip(left, own, strict=True):
        means = np.repeat(x.sum(1, keepdims=True) / 16, 16, axis=1)
        assert share == pytest.approx(np.sqrt(((x - means) ** 2).sum() / (x**2).sum()))


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_a_norm_removes_two_parts_of_a_gradient_and_divides_the_rest(norm: str):
    """Xu et al. 2019, theorem 1: dx = (g − mean(g) − x̂ mean(g x̂)) / σ; RMSNorm subtracts no mean, forwards or
    backwards. By hand from what autograd gives behind the norm of a layer."""
    wanted, centres = section(norm=norm, num_layers=1), norm == "layernorm"
    model, batch = build_model(wanted).double().eval(), synthetic_batch(wanted, 4, 16, np.random.default_rng(0))
    norm, seen = model.transformer_layers[0].attention_residual.norm, []
    norm.register_forward_hook(lambda _, x, y: seen.extend((x[0], y)))
    logits = model(torch.as_tensor(batch.input_ids))
    loss = F.cross_entropy(logits.flatten(0, 1), torch.as_tensor(batch.labels).flatten())
    [g] = torch.autograd.grad(loss, [seen[1]])
    x = seen[0].detach()
    x = x - x.mean(-1, keepdim=True) * centres
    sigma = ((x**2).mean(-1, keepdim=True) + wanted.norm_eps).sqrt()
    hat = x / sigma
    by_hand = (g - g.mean(-1, keepdim=True) * centres - hat * (g * hat).mean(-1, keepdim=True)) / sigma
    own = profile(initial_gradients(wanted), "pre-norm").stacks[0].norms
    assert own is not None
    assert own.entering[0] == pytest.approx(float(g.norm()))
    assert own.leaving[0] == pytest.approx(float(by_hand.norm()))
    assert own.deviation[0] == pytest.approx(float(sigma.mean()))
    assert own.along_ones[0] == pytest.approx(centres * float((16 * g.mean(-1) ** 2).sum() / (g**2).sum()))
    unit = hat / hat.norm(dim=-1, keepdim=True)
    assert own.along_output[0] == pytest.approx(float(((g * unit).sum(-1) ** 2).sum() / (g**2).sum()))


@pytest.mark.parametrize(
    ("architecture", "labels"),
    [("decoder", 1), ("encoder", 5), ("encoder-decoder", 1)],
)
def test_of_a_run_on_its_text(trained: Callable[[str], Path], architecture: str, labels: int):
    run = load_run(trained(architecture))
    text = "Tom swam across the river" if architecture != "encoder-decoder" else "O livro"
    inputs = read_text(run, text, "The book" if architecture == "encoder-decoder" else None)
    record = run_gradients(run, inputs)
    assert [one.trained for one in record.profiles] == [True] + [False] * 5
    assert record.text
    if architecture == "encoder":
        assert inputs.encoder is not None
        assert record.labels == len(range(1, len(inputs.encoder) - 1, labels))
    else:
        assert inputs.decoder is not None
        assert record.labels == len(inputs.decoder) - (1 if architecture == "decoder" else 0)
    assert all((stack.parameters > 0).all() for one in record.profiles[:3] for stack in one.stacks)


def test_what_has_no_gradients_is_refused():
    with pytest.raises(UsageError, match="without a head"):
        initial_gradients(section("encoder", head="none"))
    with pytest.raises(UsageError, match="too many for this picture"):
        initial_gradients(replace(section(), d_model=1 << 14, num_heads=1))


def test_pictures_of_a_sum_are_refused_where_nothing_is_added(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    object.__setattr__(run.config.model, "residuals", False)
    subject = of_run(run, "Tom swam")
    for picture in (
        lambda: lens(run, "Tom swam"),
        lambda: attribution(run, "Tom swam"),
        lambda: explain_layer(subject),
    ):
        with pytest.raises(UsageError, match=r"model\.residuals = false"):
            picture()


def test_a_part_that_is_only_rounding_is_no_number() -> None:
    """1e-15 of a vector is what sums in float64 leave, even if two passes agree; 1e-9 is a measurement, 0 is 0."""
    parts, wholes = np.array([1e-15, 1e-9, 0.0, 0.5]), np.array([1.0, 1.0, 1.0, 1.0])
    shares = _share(parts, wholes)
    assert np.isnan(shares[0])
    np.testing.assert_array_equal(shares[1:], [1e-9, 0.0, 0.5])


def test_gradients_as_json_have_null_for_rounding() -> None:
    """The encoder's last layer without residuals had 1.1e-29 here: no share of a square in float64 is so small."""
    arguments = ["--preset", "vaswani2017", "--size", "mini", "--set", "model.num_layers=12", "--json"]
    record = json.loads(tfcli("inspect", "gradients", *arguments).stdout)
    shares = []
    for profile in record["profiles"]:
        for one in profile["stacks"]:
            if one["norms"] is not None:
                shares += one["norms"]["along_output"] + one["norms"]["along_ones"]
    assert None in shares
    assert all(share is None or share == 0 or share > 1e-28 for share in shares)
