"""Adapters of low rank, against W + α/r B A as it is written."""

import pytest
import torch
from torch import Tensor, nn

from tests.models.small import ARCHITECTURES, ids, lively, section
from tfcli.errors import UsageError
from tfcli.layers.kernels import Linear
from tfcli.layers.lora import LoraLinear, Merged, adapt, num_trained, trained
from tfcli.models.build import meta_model, uninitialized_model
from tfcli.models.transformer import Transformer
from tfcli.runs.weights import fill_model, model_tensors

RANK, SCALE = 3, 2.5


def adapted(linear: nn.Linear) -> LoraLinear:
    """A layer of which both factors say something."""
    layer = LoraLinear(linear, RANK, SCALE, torch.Generator().manual_seed(1))
    nn.init.normal_(layer.lora_b, generator=torch.Generator().manual_seed(2))
    return layer.train()


def test_by_hand():
    """W = (1 2; 3 4), A = (1 1), B = (1, 2)ᵀ, s = 10: W + s B A = (11 12; 23 24)."""
    linear = Linear(2, 2, bias=False)
    layer = LoraLinear(linear, 1, 10.0, torch.Generator())
    for parameter, values in ((layer.weight, [[1, 2], [3, 4]]), (layer.lora_a, [[1, 1]]), (layer.lora_b, [[1], [2]])):
        nn.init.zeros_(parameter).data += torch.tensor(values)
    assert layer(torch.tensor([[1.0, 100.0]])).tolist() == [[1211, 2423]]
    assert Merged(dict(layer.named_parameters()), 10.0)["weight"].tolist() == [[1, 2], [3, 4]], "no layer of that name"
    assert Merged({f"x.{n}": p for n, p in layer.named_parameters()}, 10.0)["x.weight"].tolist() == [[11, 12], [23, 24]]


@pytest.mark.parametrize("bias", [True, False])
def test_output_and_gradients_are_those_of_the_formula(bias: bool):
    linear = Linear(6, 5, bias=bias).double().requires_grad_(False)
    layer, x = adapted(linear), torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    found = layer(x)
    a, b, same_x = (t.detach().clone().requires_grad_() for t in (layer.lora_a, layer.lora_b, x))
    expected = nn.functional.linear(same_x, linear.weight + SCALE * b @ a, linear.bias)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    found.sin().sum().backward()
    expected.sin().sum().backward()
    for ours, theirs in ((layer.lora_a, a), (layer.lora_b, b), (x, same_x)):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    assert all(p.grad is None for p in (layer.weight, layer.bias) if p is not None)


def test_the_biased_product_has_no_gradient_for_what_is_frozen():
    """Under autocast on a CPU the product with a bias is one of ours: its gradient by the input stays what it was."""
    x, gradients = torch.randn(3, 8), []
    for frozen in (False, True):
        torch.manual_seed(0)
        layer, copy = Linear(8, 4).requires_grad_(not frozen).train(), x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            layer(copy).float().sum().backward()
        gradients.append(copy.grad)
        assert all((p.grad is None) is frozen for p in layer.parameters())
    assert torch.equal(*gradients)


def test_factors_begin_as_the_paper_has_them():
    """A at random with a variance of 1/in, B at zero; another seed draws another A."""
    linear, (one, two, other) = Linear(400, 60), (torch.Generator().manual_seed(seed) for seed in (7, 7, 8))
    layer = LoraLinear(linear, 50, 1.0, one)
    assert not layer.lora_b.any() and layer.lora_b.shape == (60, 50)
    assert float(layer.lora_a.detach().std()) == pytest.approx(1 / 20, rel=0.02)
    assert torch.equal(layer.lora_a, LoraLinear(linear, 50, 1.0, two).lora_a)
    assert not torch.equal(layer.lora_a, LoraLinear(linear, 50, 1.0, other).lora_a)
    x = torch.randn(3, 400)
    assert torch.equal(layer(x), linear(x)), "nothing changes at first"


def inputs(model: Transformer) -> list[Tensor]:
    return [ids(), ids(seed=1)] if model.section.architecture == "encoder-decoder" else [ids()]


VARIANTS = [
    {"num_heads": 4, "num_kv_heads": 2, "activation": "swiglu", "attention_bias": True},
    {"attention_score": "parameter_free", "positions": "learned"},
    {"attention_score": "additive", "positions": "learned", "norm_placement": "post", "tie_embeddings": True},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda one: next(iter(one)))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_merged_a_model_computes_the_same(architecture: str, settings: dict[str, object]):
    """In float64 to 1e-10 of logits of about 1 to 100; and what is merged has a plain model's names and shapes."""
    wanted = section(architecture, **settings)
    model = lively(wanted)
    given = inputs(model)
    before, own = model(*given), {name: p.clone() for name, p in model.named_parameters()}
    adapt(model, 2, SCALE, seed=3)
    assert torch.equal(model(*given), before)
    for name, parameter in trained(model).items():
        nn.init.normal_(parameter, 0.0, 0.3)
        assert name.endswith((".lora_a", ".lora_b"))
    after = model(*given)
    assert bool(((after - before).abs() > 0.1).any())
    merged, plain = Merged(model_tensors(model), SCALE), uninitialized_model(wanted).double().eval()
    assert {n: t.shape for n, t in merged.items()} == {n: p.shape for n, p in meta_model(wanted).named_parameters()}
    fill_model(plain, merged, wanted)  # type: ignore[arg-type]
    torch.testing.assert_close(plain(*given), after, rtol=1e-10, atol=1e-10)
    assert all(torch.equal(model_tensors(model)[name], tensor) for name, tensor in own.items())


def test_the_trained_numbers_are_counted_by_hand():
    """Two layers of D = 16 with 4 heads of 4 and 2 pairs of keys and values, F = 40: of rank 2, query and output have
    2 · (16 + 16), key and value 2 · (16 + 8), gate, up and output of the feed-forward 2 · (16 + 40)."""
    model = meta_model(section(num_heads=4, num_kv_heads=2, d_ff=40, activation="swiglu"))
    adapt(model, 2, 1.0)
    assert num_trained(model) == 2 * (2 * 64 + 2 * 48 + 3 * 112)


def test_a_rank_is_at_most_that_of_the_smallest_matrix():
    wanted = section(num_heads=4, num_kv_heads=2, d_ff=40)
    adapt(meta_model(wanted), 8, 1.0)
    with pytest.raises(UsageError, match=r"train.adapter_rank = 9 is more than a matrix of 8×16 .*key.* has; set 8 at"):
        adapt(meta_model(wanted), 9, 1.0)
