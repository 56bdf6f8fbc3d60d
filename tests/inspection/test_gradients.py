"""Gradients by layer: as autograd has them for a composition by hand, and what residuals and norms do to them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.models.small import ARCHITECTURES, section
from tfcli.errors import UsageError
from tfcli.inspection.gradients import GradientProfile, GradientsRecord
from tfcli.inspection.gradients.compute import WithoutResidual, initial_gradients, run_gradients, without_residuals
from tfcli.inspection.passes import read_text
from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run
from tfcli.training.memory import synthetic_batch

DEEP: ModelSection = section(
    num_layers=6, d_ff=32, activation="relu", positions="none", initialization="vaswani2017", norm="layernorm"
)


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


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_without_its_residual_a_sublayer_stands_alone(placement: str):
    residual = Residual(section(norm_placement=placement))
    x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))

    def double(h: torch.Tensor) -> torch.Tensor:
        return 2 * h + 1

    alone = WithoutResidual(residual, norms=True)(x, double)
    assert torch.equal(alone, double(residual.norm(x)) if placement == "pre" else residual.norm(double(x)))
    assert torch.equal(WithoutResidual(residual, norms=False)(x, double), double(x))


def test_the_model_itself_keeps_its_residuals():
    model = build_model(section())
    without_residuals(model)
    assert sum(isinstance(module, Residual) for module in model.modules()) == 4


@pytest.mark.parametrize(
    ("architecture", "labels"),
    [("decoder", 1), ("encoder", 5), ("encoder-decoder", 1)],
)
def test_of_a_run_on_its_text(trained: Callable[[str], Path], architecture: str, labels: int):
    run = load_run(trained(architecture))
    text = "Tom swam across the river" if architecture != "encoder-decoder" else "O livro"
    inputs = read_text(run, text, "The book" if architecture == "encoder-decoder" else None)
    record = run_gradients(run, inputs)
    assert [one.trained for one in record.profiles] == [True, True, False, False]
    assert record.text
    if architecture == "encoder":
        assert inputs.encoder is not None
        assert record.labels == len(range(1, len(inputs.encoder) - 1, labels))
    else:
        assert inputs.decoder is not None
        assert record.labels == len(inputs.decoder) - (1 if architecture == "decoder" else 0)
    assert all((stack.parameters > 0).all() for one in record.profiles for stack in one.stacks)


def test_what_has_no_gradients_is_refused():
    with pytest.raises(UsageError, match="without a head"):
        initial_gradients(section("encoder", head="none"))
    with pytest.raises(UsageError, match="too many for this picture"):
        initial_gradients(replace(section(), d_model=1 << 14, num_heads=1))
