"""Which optimizer moves and which decay shrinks which weight; Muon's step against its definition."""

import math

import pytest
import torch
from torch.optim import AdamW

from tests.models.small import model
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection
from tfcli.training.muon import Muon, orthogonal
from tfcli.training.optimizer import build_optimizers


def settings_by_name(network: Transformer, train: TrainSection, key: str) -> dict[str, tuple[type, float]]:
    """The optimizer of each weight and one of its settings."""
    names = {id(p): name for name, p in network.named_parameters()}
    found: dict[str, tuple[type, float]] = {}
    for optimizer in build_optimizers(network, train):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = names[id(parameter)]
                assert name not in found, "one optimizer a weight"
                found[name] = type(optimizer), group[key]
    assert found.keys() == set(names.values()), "every weight has one"
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_muon_takes_the_matrices_inside_the_layers_and_adamw_the_rest(tied: bool):
    network = model("encoder-decoder", tie_embeddings=tied, norm="layernorm", attention_bias=True, positions="learned")
    found = settings_by_name(
        network, TrainSection(optimizer="muon", learning_rate=0.5, muon_learning_rate=0.25), "peak"
    )
    for name, (kind, peak) in found.items():
        inside = ".layers." in name and name.endswith("weight") and "norm" not in name
        assert (kind, peak) == ((Muon, 0.25) if inside else (AdamW, 0.5)), name


@pytest.mark.parametrize(
    ("decayed", "embedding", "head", "matrix", "vector"),
    [("matrices", 1, 1, 1, 0), ("linear", 0, 1, 1, 0), ("all", 1, 1, 1, 1)],
)
def test_what_decays_is_what_the_recipe_names(decayed, embedding: int, head: int, matrix: int, vector: int):
    network = model(tie_embeddings=False, norm="layernorm", attention_bias=True, positions="learned")
    found = settings_by_name(network, TrainSection(decayed=decayed, weight_decay=0.3), "weight_decay")
    for name, (_, decay) in found.items():
        if name.startswith("embedding."):
            expected = embedding
        elif name == "head.weight":
            expected = head
        elif name.endswith("bias") or "norm" in name:
            expected = vector
        else:
            expected = matrix
        assert decay == 0.3 * expected, name


def test_a_tied_matrix_decays_as_the_head_that_it_is():
    found = settings_by_name(model(), TrainSection(decayed="linear", weight_decay=0.3), "weight_decay")
    assert found["embedding.weight"] == (AdamW, 0.3)


def test_muon_moves_all_directions_of_a_matrix_alike():
    """The update is nearly orthogonal: its singular values lie around 1 (the coefficients leave them between 0.7 and
    1.2), times √(rows / columns) for a tall matrix, times the rate. Momentum starts at the gradient."""
    network = model(d_ff=64).float()
    train = TrainSection(optimizer="muon", muon_learning_rate=0.1, weight_decay=0.0)
    _, muon = build_optimizers(network, train)
    tall = network.get_parameter("stack.layers.0.feed_forward.up.weight")
    before = tall.detach().clone()
    tall.grad = torch.randn(tall.shape, generator=torch.Generator().manual_seed(0))
    muon.step()
    values = torch.linalg.svdvals((before - tall.detach()) / 0.1 / math.sqrt(64 / 16))
    assert tall.shape == (64, 16)
    assert values.min() > 0.6 and values.max() < 1.3
    assert torch.linalg.svdvals(tall.grad).max() > 5, "the gradient itself is far from it"


def test_steps_are_those_of_pytorch_s_muon():
    """Three steps with momentum and decay over matrices of three shapes, square, wide and tall; both iterate in
    bfloat16, in another order of additions."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(16, 16), (16, 16), (8, 24), (24, 8)]
    ours = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
    theirs = [matrix.detach().clone().requires_grad_() for matrix in ours]
    first = [matrix.detach().clone() for matrix in ours]
    muon = Muon(ours, lr=0.1, momentum=0.9, weight_decay=0.5)
    reference = torch.optim.Muon(theirs, lr=0.1, momentum=0.9, weight_decay=0.5, adjust_lr_fn="original")
    for _ in range(3):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        muon.step()
        reference.step()
    for mine, other, before in zip(ours, theirs, first, strict=True):
        assert (mine - other).norm() < 0.01 * (other - before).norm()


def test_a_matrix_without_a_gradient_stays_and_zeros_stay_zeros():
    still, empty = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)
    empty.grad = torch.zeros(4, 4)
    Muon([still, empty], lr=0.1).step()
    assert torch.equal(still, torch.ones(4, 4)) and torch.equal(empty, torch.ones(4, 4))


def test_an_orthogonal_matrix_is_left_as_it_is_up_to_the_coefficients():
    """The singular values of the identity over its norm, 1/2, go to between 0.7 and 1.2, all to the same."""
    found = orthogonal(torch.eye(4)[None])[0].float()
    assert 0.65 < found[0, 0] < 1.25
    torch.testing.assert_close(found, found[0, 0] * torch.eye(4))
