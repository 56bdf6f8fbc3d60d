"""Apple's GPUs, on a pretended one: no float64, no copy that nobody waits for; the same numbers as on the CPU."""

import copy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.generation.small import ROLES, small_model
from tests.support.fake_mps import MPS, PretendedMps, moved
from tests.training.test_step import batch, small
from tfcli.evaluation.measure import total_loss
from tfcli.generation.decoding import collect, prompt_tokens
from tfcli.recipe.recipe import GenerateSection
from tfcli.recipe.train import TrainSection
from tfcli.training.metrics import UpdateSizes
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers, optimizer_step
from tfcli.training.schedule import learning_rate_factor

KINDS = ["decoder", "encoder", "encoder-decoder"]
SAMPLED = GenerateSection(temperature=0.9, top_k=6, top_p=0.95, num_samples=4, max_new_tokens=6, seed=3)


def test_the_pretended_device_refuses_what_the_real_one_does():
    with PretendedMps(), pytest.raises(TypeError, match="float64"):
        torch.ones(2).to(MPS).double()
    with PretendedMps(), pytest.raises(RuntimeError, match="same device"):
        torch.ones(2).to(MPS) + torch.ones(2)
    with PretendedMps(), pytest.raises(AssertionError, match="not pinned"):
        torch.ones(2).to(MPS, non_blocking=True)


@pytest.mark.parametrize("settings", [SAMPLED, GenerateSection(temperature=0.0, max_new_tokens=6)])
@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal", "alibi", "t5"])
def test_texts_are_sampled_as_on_the_cpu(settings: GenerateSection, positions: str):
    model = small_model(1, positions=positions).float()
    here = collect(prompt_tokens(model, [[1, 7, 9]], ROLES, settings), settings.num_samples)
    with PretendedMps():
        there = collect(prompt_tokens(moved(copy.deepcopy(model)), [[1, 7, 9]], ROLES, settings), settings.num_samples)
    assert [text.token_ids for text in there] == [text.token_ids for text in here]


@pytest.mark.parametrize("architecture", KINDS)
def test_a_model_is_scored_as_on_the_cpu(architecture: str):
    model, batches = small(architecture), [batch(architecture, (6, 3))]
    here = total_loss(model, batches, torch.device("cpu"))
    with PretendedMps():
        there = total_loss(moved(copy.deepcopy(model)), batches, MPS)
    assert there.nats == pytest.approx(here.nats, rel=1e-6)
    assert there.correct == here.correct


class _NoFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = operation(*args, **(kwargs or {}))
        assert not any(isinstance(one, torch.Tensor) and one.dtype == torch.float64 for one in tree_leaves(made))
        return made


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("architecture", KINDS)
def test_a_step_of_training_needs_no_float64(architecture: str, optimizer: str):
    """Loss, smoothing, gradients, clipping, the schedule's rate, both optimizers, and how far the weights went."""
    model = small(architecture)
    section = TrainSection(label_smoothing=0.1, precision="float32", optimizer=optimizer, steps=10, warmup_steps=2)
    objective, optimizers = TrainingLoss(model, section), build_optimizers(model, section)
    with _NoFloat64():
        loss, norm = optimizer_step(
            objective,
            optimizers,
            [batch(architecture, (6, 3)), batch(architecture, (2, 1))],
            learning_rate_factor=learning_rate_factor(3, section),
            clip_norm=0.5,
            only_finite=True,
            measured=UpdateSizes(model),
        )
    assert bool(torch.isfinite(loss).all()) and bool(norm > 0)
