"""One update: the groups of the optimizer, label smoothing, accumulation and clipping."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.models.small import ARCHITECTURES, model
from tfcli.data.batch import IGNORED, Batch
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers, optimizer_step


def small(architecture: str) -> Transformer:
    """Evaluation mode is float64's; training is in float32 and without dropout here."""
    return model(architecture).float().train()


def batch(architecture: str, targets: tuple[int, ...]) -> Batch:
    """Rows of 6 tokens with `targets` labels each, at the front of the row."""
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 11, (len(targets), 6))
    labels = draw.integers(0, 11, (len(targets), 6))
    for row, count in enumerate(targets):
        labels[row, count:] = IGNORED
    pairs = {"decoder_input_ids": draw.integers(0, 11, (len(targets), 6))}
    return Batch(ids, labels, **(pairs if architecture == "encoder-decoder" else {}))


def part(whole: Batch, rows: slice) -> Batch:
    inputs = whole.decoder_input_ids
    return Batch(whole.input_ids[rows], whole.labels[rows], decoder_input_ids=None if inputs is None else inputs[rows])


def update(
    network: Transformer,
    batches: list[Batch],
    *,
    clip: float = 0.0,
    smoothing: float = 0.0,
    rate: float = 1.0,
) -> tuple[float, float, dict[str, Tensor]]:
    """The loss that is minimised, norm and how far each weight went under plain gradient descent: minus its
    gradient, at a rate of 1."""
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    descent = torch.optim.SGD([{"params": list(network.parameters()), "peak": rate / 0.25}], lr=123.0)
    objective = TrainingLoss(network, TrainSection(label_smoothing=smoothing, precision="float32"))
    loss, norm = optimizer_step(objective, [descent], batches, learning_rate_factor=0.25, clip_norm=clip)
    moved = {name: before[name] - p.detach() for name, p in network.named_parameters()}
    assert loss[0].item() == pytest.approx(loss[1].item()) or smoothing
    return loss[1].item(), norm.item(), moved


def length(moved: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float(change.square().sum()) for change in moved.values()))


def test_matrices_decay_and_vectors_do_not():
    network = model("encoder-decoder", norm="layernorm", attention_bias=True, positions="learned").float()
    (optimizer,) = build_optimizers(network, TrainSection(weight_decay=0.3, learning_rate=0.01, beta1=0.8, beta2=0.95))
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    named = dict(network.named_parameters())
    assert len(decay) == len(named), "every parameter is in one group, a tied matrix once"
    for name, parameter in named.items():
        is_vector = name.endswith("bias") or "norm" in name
        assert decay[id(parameter)] == (0.0 if is_vector else 0.3), name
    assert {(group["betas"], group["lr"]) for group in optimizer.param_groups} == {((0.8, 0.95), 0.01)}


def test_decay_alone_shrinks_a_matrix_by_rate_times_decay():
    """Without a gradient, AdamW does W ← W − η λ W: by 0.1 · 0.5, to 0.95 of it; gains stay at what they
    were."""
    network = model().float()
    (optimizer,) = build_optimizers(network, TrainSection(weight_decay=0.5, learning_rate=0.1))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if parameter.ndim == 2 else 1.0))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_micro_batches_with_different_numbers_of_targets_are_one_batch(architecture: str, smoothing: float):
    """Rows have 6, 5, 1 and 2 targets. Were the halves averaged first, the 3 targets of the second half would
    weigh as much as the 11 of the first."""
    whole = batch(architecture, (6, 5, 1, 2))
    halves = [part(whole, slice(0, 2)), part(whole, slice(2, 4))]
    assert [half.target_tokens for half in halves] == [11, 3]
    once = update(small(architecture), [whole], smoothing=smoothing)
    twice = update(small(architecture), halves, smoothing=smoothing)
    assert twice[:2] == pytest.approx(once[:2], rel=1e-5)
    for name, change in once[2].items():
        torch.testing.assert_close(twice[2][name], change, rtol=1e-4, atol=1e-6)
    apart = [update(small(architecture), [half], smoothing=smoothing) for half in halves]
    assert abs((apart[0][0] + apart[1][0]) / 2 - once[0]) > 2e-4, "the wrong mean would show"
    assert (11 * apart[0][0] + 3 * apart[1][0]) / 14 == pytest.approx(once[0], rel=1e-5)


def test_the_loss_and_the_update_are_pytorch_s_own():
    whole, network = batch("decoder", (6, 5, 1, 2)), small("decoder")
    logits = network(torch.as_tensor(whole.input_ids))
    expected = F.cross_entropy(logits.flatten(0, 1), torch.as_tensor(whole.labels).flatten())
    gradients = torch.autograd.grad(expected, list(network.parameters()))
    loss, norm, moved = update(network, [whole])
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert norm == pytest.approx(math.sqrt(sum(float(g.square().sum()) for g in gradients)), rel=1e-5)
    for (name, _), gradient in zip(network.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(moved[name], gradient, rtol=1e-4, atol=1e-6)


def test_the_rate_is_that_of_the_step_and_no_gradient_is_left():
    network = small("decoder")
    whole = batch("decoder", (6, 6, 6, 6))
    slow, fast = update(small("decoder"), [whole], rate=0.5)[2], update(network, [whole], rate=1.0)[2]
    assert length(slow) == pytest.approx(length(fast) / 2, rel=1e-4)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_clipping_shortens_a_gradient_that_is_too_long_and_tells_its_length_before():
    whole = batch("decoder", (6, 6, 6, 6))
    _, norm, free = update(small("decoder"), [whole], clip=0.0)
    assert length(free) == pytest.approx(norm, rel=1e-4), "0 leaves gradients alone"
    _, told, clipped = update(small("decoder"), [whole], clip=norm / 4)
    assert told == pytest.approx(norm)
    assert length(clipped) == pytest.approx(norm / 4, rel=1e-3)
    _, _, loose = update(small("decoder"), [whole], clip=norm * 4)
    assert length(loose) == pytest.approx(norm, rel=1e-4), "a gradient that is short enough is left alone"


def test_a_batch_without_a_target_changes_nothing():
    """A window of special tokens alone has no label in a masked model: 0 / 0 would be NaN in every weight."""
    loss, norm, moved = update(small("encoder"), [batch("encoder", (0, 0))])
    assert (loss, norm, length(moved)) == (0.0, 0.0, 0.0)
