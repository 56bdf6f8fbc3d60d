"""The feed-forward and its activations, with numbers worked out by hand."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.layers.layer import ACTIVATIONS, FeedForward
from tfcli.recipe.model import GATED, Activation, ModelSection

from .references import draw, randomize

KINDS = get_args(Activation)


def small(activation: str, bias: bool = False) -> FeedForward:
    """A feed-forward 2 → 2 → 2 with W₁ = [[1, −1], [2, 0]] (rows are outputs), W₂ = [[1, 1], [0, 3]], gate
    [[0, 1], [1, 0]]."""
    section = ModelSection(d_model=2, num_heads=1, d_ff=2, activation=activation, feed_forward_bias=bias)
    module = FeedForward(section)
    with torch.no_grad():
        module.up.weight.copy_(torch.tensor([[1.0, -1.0], [2.0, 0.0]]))
        module.output.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 3.0]]))
        if bias:
            module.up.bias.copy_(torch.tensor([0.5, -1.0]))
            module.output.bias.copy_(torch.tensor([0.0, 100.0]))
        if module.gate is not None:
            module.gate.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
            if bias:
                module.gate.bias.copy_(torch.tensor([1.0, 0.0]))
    return module


X = torch.tensor([1.0, 3.0])


def test_relu_feed_forward_by_hand():
    """x = (1, 3): W₁x = (−2, 2), relu (0, 2), W₂ gives (2, 6). With biases: (−1.5, 1) → (0, 1) → (1, 3 +
    100)."""
    assert small("relu")(X).tolist() == [2.0, 6.0]
    assert small("relu", bias=True)(X).tolist() == [1.0, 103.0]


def test_squared_relu_feed_forward_by_hand():
    """(−2, 2) → (0, 4) → (4, 12)."""
    assert small("relu2")(X).tolist() == [4.0, 12.0]


def test_gelu_feed_forward_is_the_exact_gelu():
    """x = (1, 3): W₁x = (−2, 2), gelu(u) = u Φ(u) with Φ(2) = 0.97725: (−0.04550, 1.95450); W₂ gives their
    sum 1.909 and 3 · 1.95450."""
    torch.testing.assert_close(small("gelu")(X), torch.tensor([1.9089997, 5.8634996]), atol=1e-6, rtol=0)


def test_silu_feed_forward_by_hand():
    """silu(u) = u / (1 + e^−u): −2 / (1 + 7.389056) = −0.238406 and 2 / (1 + 0.135335) = 1.761594; W₂ gives their sum
    1.523188 and 3 · 1.761594."""
    torch.testing.assert_close(small("silu")(X), torch.tensor([1.523188, 5.284782]))


def test_swiglu_feed_forward_by_hand():
    """x = (1, 3): gate (3, 1) through silu(u) = u / (1 + e^−u): 2.857722 and 0.731059; up (−2, 2); the
    products are −5.715445 and 1.462117; W₂ gives −4.253328 and 4.386351."""
    torch.testing.assert_close(small("swiglu")(X), torch.tensor([-4.253328, 4.386351]))


def test_geglu_feed_forward_by_hand():
    """Gate (3, 1) through u Φ(u), Φ(3) = 0.998650 and Φ(1) = 0.841345: 2.995950 and 0.841345; times up (−2, 2):
    −5.991900 and 1.682689; W₂ gives −4.309211 and 5.048068."""
    torch.testing.assert_close(small("geglu")(X), torch.tensor([-4.309211, 5.048068]), atol=2e-6, rtol=0)


def test_the_gate_has_its_bias_too():
    """Gate (3 + 1, 1), up (−2 + 0.5, 2 − 1) = (−1.5, 1): silu(4) = 3.928055, silu(1) = 0.731059; products −5.892083
    and 0.731059; W₂ and its bias: −5.161024 and 2.193176 + 100."""
    torch.testing.assert_close(small("swiglu", bias=True)(X), torch.tensor([-5.161024, 102.193176]))


@pytest.mark.parametrize(
    ("name", "at", "expected"),
    [
        ("relu", -1.5, 0.0),
        ("relu2", 3.0, 9.0),
        ("relu2", -3.0, 0.0),
        ("gelu", 1.0, 0.8413447),  # Φ(1)
        ("gelu", -1.0, -0.1586553),
        # √(2/π) = 0.7978846; (1 + 0.044715) · that = 0.8335620; tanh of it = 0.6823840; half of 1 + that.
        ("gelu_tanh", 1.0, 0.8411920),
        # 0.7978846 · (2 + 0.044715 · 8) = 1.8811894; tanh of it = 0.9545978; times 1 + it.
        ("gelu_tanh", 2.0, 1.9545978),
        ("silu", 1.0, 0.7310586),  # 1 / (1 + 1/e)
    ],
)
def test_activations_by_hand(name: Activation, at: float, expected: float):
    assert ACTIVATIONS[name](torch.tensor(at)).item() == pytest.approx(expected, abs=1e-6)


def test_the_tanh_gelu_is_near_the_exact_one_and_not_the_same():
    u = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    difference = (ACTIVATIONS["gelu"](u) - ACTIVATIONS["gelu_tanh"](u)).abs().max()
    assert 1e-5 < difference < 1e-3
    formula = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    torch.testing.assert_close(ACTIVATIONS["gelu_tanh"](u), formula)


@pytest.mark.parametrize("activation", KINDS)
def test_a_feed_forward_is_its_formula(activation: Activation):
    """(f(x W) ⊙ x V) W₂ where the kind is gated, and f(x W₁) W₂ where not, with f by PyTorch's own functions."""
    functions = {
        "relu": F.relu,
        "relu2": lambda u: F.relu(u) ** 2,
        "gelu": F.gelu,
        "gelu_tanh": lambda u: F.gelu(u, approximate="tanh"),
        "silu": F.silu,
        "swiglu": F.silu,
        "geglu": F.gelu,
        "geglu_tanh": lambda u: F.gelu(u, approximate="tanh"),
    }
    section = ModelSection(d_model=4, num_heads=1, d_ff=3, activation=activation, feed_forward_bias=True)
    module, x = FeedForward(section).double(), draw(2, 3, 4)
    randomize(module)
    state = module.state_dict()

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    f = functions[activation]
    inner = f(linear(x, "gate")) * linear(x, "up") if activation in GATED else f(linear(x, "up"))
    torch.testing.assert_close(module(x), linear(inner, "output"))
    assert set(state) == {f"{m}.{p}" for m in ("gate", "up", "output") for p in ("weight", "bias") if m != "gate"} | (
        {"gate.weight", "gate.bias"} if activation in GATED else set()
    )


@pytest.mark.parametrize("activation", KINDS)
def test_the_gradient_of_a_feed_forward(activation: Activation):
    """Against finite differences (no number of this draw is near the corner of a relu)."""
    module = FeedForward(ModelSection(d_model=4, num_heads=1, d_ff=3, activation=activation)).double()
    randomize(module)
    x = draw(2, 4).requires_grad_()
    assert module.up(x).abs().min() > 1e-3
    assert torch.autograd.gradcheck(lambda x, *_: module(x), [x, *module.parameters()])


@pytest.mark.parametrize("activation", KINDS)
def test_the_feed_forward_mixes_no_tokens(activation: Activation):
    module = FeedForward(ModelSection(d_model=6, num_heads=1, activation=activation)).double()
    x = draw(2, 4, 6)
    torch.testing.assert_close(module(x)[0, 1], module(x[0, 1]))


def test_the_inner_size_is_chosen_so_that_all_kinds_weigh_the_same():
    """4 D for two matrices; 8/3 D for three, rounded up to 8: D = 96 gives 256 exactly, D = 100 gives 266.7 →
    272."""

    def inner(d_model: int, activation: Activation) -> int:
        return FeedForward(ModelSection(d_model=d_model, num_heads=1, activation=activation)).up.out_features

    for activation in KINDS:
        assert inner(96, activation) == (256 if activation in GATED else 384)
    assert inner(100, "swiglu") == 272


def test_dropout_inside_falls_after_the_activation():
    """x = (1, 3) → relu (0, 2), of which half is dropped and the rest doubled: 0 or 4, so that W₂ gives (0, 0) or
    (4, 12), in training alone."""
    module = small("relu")
    module.dropout = 0.5
    torch.manual_seed(0)
    assert {tuple(module(X).tolist()) for _ in range(50)} == {(0.0, 0.0), (4.0, 12.0)}
    assert module.eval()(X).tolist() == [2.0, 6.0]
