"""Activation steering: against a second implementation, with and without a cache, and a direction planted by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from tests.generation.runs import run
from tests.generation.small import ROLES, small_model
from tfcli.errors import BrokenInputError, UsageError
from tfcli.generation.beam_search import continuations
from tfcli.generation.generate import generate_all
from tfcli.generation.steering import layer_at, load_direction, steered
from tfcli.layers.attention import Span
from tfcli.models.transformer import EncoderDecoder, Stack, Transformer
from tfcli.recipe.recipe import GenerateSection

KINDS: list[dict[str, Any]] = [
    {"positions": "rotary"},
    {"positions": "alibi", "num_heads": 4, "num_kv_heads": 2},
    {"positions": "learned", "norm": "layernorm", "norm_placement": "post"},
    {"positions": "sinusoidal", "position_merge": "concat", "tie_embeddings": False},
    {"positions": "t5", "sliding_window": 3},
]
PROMPTS = [[1, 5, 6], [1, 7], [1, 8, 9, 10, 11, 5]]


def direction(size: int = 8, seed: int = 0) -> Tensor:
    return 3 * torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def through(stack: Stack, x: Tensor, added: dict[int, Tensor], memory: Tensor | None = None) -> Tensor:
    """A stack layer by layer, without hooks and without a cache."""
    for number, layer in enumerate(stack.layers):
        x = layer(x, memory=memory, positions=stack.positions(Span(0, x.shape[1]))) + added.get(number, 0.0)
    return stack.final_norm(x)


def naive(model: Transformer, ids: list[Tensor], at: str, added: Tensor) -> Tensor:
    """The logits of a steered model, written down a second time."""
    here, none = {int(at.split(".")[-1]): added}, dict[int, Tensor]()
    if not isinstance(model, EncoderDecoder):
        return model.head(through(model.stack, model.embedding(ids[0]), here))
    memory = through(model.encoder, model.embedding(ids[0]), here if "." in at else none)
    target = model.target_embedding(ids[1])
    return model.head(through(model.decoder, target, none if "." in at else here, memory))


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind["positions"]))
@pytest.mark.parametrize("at", ["0", "1", "encoder.1"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_a_steered_pass_is_one_to_whose_layer_the_vector_is_added(architecture: str, at: str, kind: dict[str, Any]):
    if "." in at and architecture != "encoder-decoder":
        pytest.skip("it has one stack")
    model = small_model(architecture=architecture, **kind)
    ids = [torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 10]])][: 1 + (architecture == "encoder-decoder")]
    before = model(*ids)
    with steered(model, direction(), at, -1.5):
        found = model(*ids)
    torch.testing.assert_close(found, naive(model, ids, at, -1.5 * direction()), rtol=1e-9, atol=1e-9)
    assert (found - before).abs().max() > 0.01
    assert torch.equal(model(*ids), before)


def greedily(
    model: Transformer, prompt: list[int], at: str, added: Tensor, steps: int
) -> tuple[list[int], list[float]]:
    """The likeliest tokens and their log-probabilities, every step a pass over the whole text."""
    new, scores = list[int](), list[float]()
    two = isinstance(model, EncoderDecoder)
    while len(new) < steps and ROLES.eos not in new:
        ids = (
            [torch.tensor([[*prompt, ROLES.eos]]), torch.tensor([[ROLES.bos, *new]])]
            if two
            else [torch.tensor([[*prompt, *new]])]
        )
        logits = naive(model, ids, at, added)[0, -1]
        allowed = logits.clone()
        allowed[[ROLES.pad, ROLES.bos, ROLES.mask, ROLES.unk]] = -torch.inf
        new.append(int(allowed.argmax()))
        scores.append(float(logits.log_softmax(-1)[new[-1]]))
    return new, scores


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind["positions"]))
@pytest.mark.parametrize(
    ("architecture", "at"), [("decoder", "0"), ("encoder-decoder", "1"), ("encoder-decoder", "encoder.0")]
)
def test_a_cache_a_batch_and_a_beam_of_one_change_nothing(architecture: str, at: str, kind: dict[str, Any]):
    """Prompts of different lengths side by side, from a cache, against whole passes one by one."""
    model = small_model(architecture=architecture, **kind)
    settings = GenerateSection(temperature=0.0, max_new_tokens=6)
    plain = continuations(model, PROMPTS, ROLES, settings)  # type: ignore[arg-type]
    with steered(model, direction(), at, 1.0):
        found = continuations(model, PROMPTS, ROLES, settings)  # type: ignore[arg-type]
    for prompt, [text] in zip(PROMPTS, found, strict=True):
        ids, scores = greedily(model, prompt, at, direction(), 6)
        assert list(text.token_ids) == ids
        assert text.log_probabilities == pytest.approx(scores, abs=1e-9)
    assert [one.token_ids for [one] in found] != [one.token_ids for [one] in plain]


@torch.inference_mode()
@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_beams_and_samples_are_scored_by_the_steered_model(architecture: str):
    model = small_model(architecture=architecture)
    for settings in (
        GenerateSection(beam=3, num_samples=2, max_new_tokens=5),
        GenerateSection(num_samples=2, seed=4, max_new_tokens=5),
    ):
        with steered(model, direction(), "1", 2.0):
            found = continuations(model, PROMPTS, ROLES, settings)  # type: ignore[arg-type]
        for prompt, texts in zip(PROMPTS, found, strict=True):
            for text in texts:
                new = list(text.token_ids)
                two = architecture == "encoder-decoder"
                ids = (
                    [torch.tensor([[*prompt, 2]]), torch.tensor([[1, *new]])]
                    if two
                    else [torch.tensor([[*prompt, *new]])]
                )
                logs = naive(model, ids, "1", 2.0 * direction())[0].log_softmax(-1)[-len(new) - 1 : -1]
                own = logs.gather(1, torch.tensor(new)[:, None])[:, 0]
                assert list(text.log_probabilities) == pytest.approx(own.tolist(), abs=1e-9)


@pytest.mark.parametrize(
    ("architecture", "prompts"),
    [("decoder", ["the cat", "she"]), ("encoder", ["the <mask> sat"]), ("encoder-decoder", ["the dog"])],
)
def test_strength_0_is_the_unsteered_model_to_the_last_bit(architecture: str, prompts: list[str]):
    loaded, settings = run(architecture), GenerateSection(max_new_tokens=8)
    plain = list(generate_all(loaded, prompts, settings))
    with steered(loaded.model, torch.full((8,), torch.inf), "1", 0.0):
        assert list(generate_all(loaded, prompts, settings)) == plain
    with steered(loaded.model, direction(), "1", 3.0):
        assert list(generate_all(loaded, prompts, settings)) != plain
    assert list(generate_all(loaded, prompts, settings)) == plain


@torch.inference_mode()
@pytest.mark.parametrize(("strength", "token"), [(0.0, 5), (0.9, 5), (1.1, 7), (4.0, 7), (-4.0, 5)])
def test_a_planted_direction_turns_the_prediction_where_arithmetic_says(strength: float, token: int):
    """Layers that add nothing, one-hot embeddings that are the head too. Token 5 leaves e₅ in the stream, and the
    direction e₇ makes it e₅ + s e₇: the last norm scales both alike, so that 5 is the likeliest up to s = 1, then 7."""
    model = small_model(positions="none", vocab_size=8, tie_embeddings=True)
    for name, parameter in model.named_parameters():
        if "layers" in name:
            parameter.zero_()
        elif "norm" not in name:
            parameter.copy_(torch.eye(8))
    ids, planted = torch.tensor([[5]]), torch.eye(8, dtype=torch.float64)[7]
    with steered(model, planted, "0", strength):
        logits = model(ids)[0, -1]
    stream = F.one_hot(ids[0, 0], 8).double() + strength * planted
    epsilon = model.section.norm_eps
    expected = stream / ((1 + strength**2) / 8 + epsilon) ** 0.5
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-12)
    assert int(logits.argmax()) == token


def test_layers_have_the_names_that_are_said():
    model = small_model(architecture="encoder-decoder", num_decoder_layers=3)
    assert layer_at(model, "2") is model.get_submodule("decoder.layers.2")
    assert layer_at(model, "encoder.1") is model.get_submodule("encoder.layers.1")
    with pytest.raises(UsageError, match=r"no layer .encoder\.2.; choose one of 0, 1, 2, encoder\.0, encoder\.1"):
        layer_at(model, "encoder.2")
    for none in ("2", "-1", "1.0", "encoder.0", "", "٠", "9" * 5000):
        with pytest.raises(UsageError, match=r"no layer .*; choose one of 0, 1\.$"):
            layer_at(small_model(), none)


@pytest.mark.parametrize("strength", [float("nan"), float("inf"), 1001.0, -1e30])
def test_a_strength_beyond_all_measure_is_refused(strength: float):
    with pytest.raises(UsageError, match="is out of range; choose one from -1000 to 1000"):
        steered(small_model(), direction(), "0", strength)


OWN = {"run_id": "test", "at": "1"}


@pytest.mark.parametrize(
    ("tensors", "about", "kind", "said"),
    [
        ({"direction": torch.ones(8)}, {"at": "1"}, UsageError, "was made of another run than run"),
        ({"weight": torch.ones(8)}, OWN, UsageError, "is no steering vector of 8 numbers, as run takes"),
        ({"direction": torch.ones(8), "b": torch.ones(8)}, OWN, UsageError, "is no steering vector of 8 numbers"),
        ({"direction": torch.ones(16)}, OWN, UsageError, "is no steering vector of 8 numbers"),
        ({"direction": torch.ones(1, 8)}, OWN, UsageError, "is no steering vector of 8 numbers"),
        ({"direction": torch.ones(8)}, OWN | {"run_id": "other"}, UsageError, "was made of another run than run"),
        ({"direction": torch.ones(8, dtype=torch.int32)}, OWN, BrokenInputError, "is of the type torch.int32"),
        ({"direction": torch.full((8,), torch.nan)}, OWN, BrokenInputError, "holds a value that is not finite"),
    ],
)
def test_what_is_no_vector_of_this_run_is_refused(
    tensors: dict[str, Tensor], about: dict[str, str], kind: type[Exception], said: str, tmp_path: Path
):
    file = tmp_path / "v.safetensors"
    save_file(tensors, file, about)
    with pytest.raises(kind, match=said):
        load_direction(file, run("decoder"))


def test_a_file_that_is_not_there_or_damaged_says_how_to_make_one(tmp_path: Path):
    remedy = "make one with tfcli inspect steer run --from TEXT --to TEXT --out FILE"
    with pytest.raises(UsageError, match=remedy):
        load_direction(tmp_path / "none", run("decoder"))
    save_file({"direction": torch.ones(8)}, file := tmp_path / "v.safetensors", OWN)
    assert load_direction(file, run("decoder")) == (pytest.approx([1.0] * 8), "1")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(BrokenInputError, match=f"is truncated; {remedy}"):
        load_direction(file, run("decoder"))
