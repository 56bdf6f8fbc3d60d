"""Models without a feed-forward network: what they compute, what they hold, and who copes."""

from pathlib import Path

import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.runs import ARCHITECTURES, resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.errors import UsageError
from tfcli.inspection.passes import record_model
from tfcli.interop.exporting import exportable
from tfcli.models.build import build_model
from tfcli.models.flops import flops_by_part
from tfcli.recipe.model import ModelSection
from tfcli.runs.directory import RunDirectory

ALONE = {"model": {"d_ff": 0, "num_layers": 2, "max_seq_len": 32}, "train": {"steps": 4}}


def inputs(architecture: str) -> tuple[torch.Tensor, ...]:
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    return (ids, ids[:, :3]) if architecture == "encoder-decoder" else (ids,)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_layer_is_attention_with_its_residual_and_nothing_else(architecture: str, placement: str):
    """The stack again, from the attentions alone: x + A(norm x), or norm(x + A x); cross-attention behind it."""
    settings = {"vocab_size": 8, "d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 0, "max_seq_len": 8}
    built = build_model(ModelSection(architecture=architecture, norm_placement=placement, positions="none", **settings))
    built = built.double().eval()
    assert not [name for name, _ in built.named_parameters() if "feed_forward" in name]
    with torch.inference_mode():
        passed = record_model(built, inputs(architecture))
        side = passed.last
        for number, one in enumerate(side.layers):
            layer = built.transformer_layers[number + (2 if architecture == "encoder-decoder" else 0)]
            x = one.before[None]
            norm = layer.attention_residual.norm
            x = x + layer.attention(norm(x)) if placement == "pre" else norm(x + layer.attention(x))
            if layer.cross_attention is not None:
                assert passed.encoder is not None
                norm, memory = layer.cross_attention_residual.norm, passed.encoder.hidden[None]
                given = norm(x) if placement == "pre" else x
                given = x + layer.cross_attention(given, memory)
                x = given if placement == "pre" else norm(given)
            torch.testing.assert_close(one.after, x[0])
            assert not one.has_feed_forward


def test_it_has_as_many_weights_and_operations_as_its_attention():
    """D = 8: four 8 × 8 matrices and a gain a layer, embeddings of 10 and a last gain. No FLOP of a feed-forward."""
    section = ModelSection(vocab_size=10, d_model=8, num_layers=2, num_heads=2, d_ff=0)
    assert build_model(section).num_parameters() == 2 * (4 * 64 + 8) + 80 + 8
    assert flops_by_part(section, 1, 4).feed_forward == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("more", [{}, {"train": {"optimizer": "muon", "ema_decay": 0.5}}], ids=["adamw", "muon"])
def test_it_is_trained_and_resumed_to_the_bit(architecture: str, more: dict, tmp_path: Path):
    recipe = tiny_recipe(architecture, ALONE, more)
    train_tiny(recipe, tmp_path / "whole")
    train_tiny(recipe, tmp_path / "broken", stop=stop_after(2))
    resume_tiny(tmp_path / "broken")
    one, other = (weights(RunDirectory(tmp_path / name).weights) for name in ("whole", "broken"))
    assert same(one, other)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pictures_cope_or_say_why_not(architecture: str, tmp_path: Path, cache: Path):
    run = tmp_path / "run"
    train_tiny(tiny_recipe(architecture, ALONE), run)
    pairs = architecture == "encoder-decoder"
    text, other = ("o livro", "o gato") if pairs else ("a cat", "a dog")
    target = ["--target", "the book"] if pairs else []
    asked = [*target, *(["--position", "3"] if architecture == "encoder" else [])]
    asked += ["--token", "the", "--against", "a"] if pairs else ["--token", "a", "--against", "t"]
    for command in (
        ("ablate", run, text, *target),
        ("patch", run, "--clean", text, "--corrupt", other, *asked),
        ("attribution", run, text, *target),
        ("lens", run, text, *target),
        ("heads", run, text, *target),
        ("model", run),
        ("cost", run),
        ("equivariance", run, "--text", text),
    ):
        result = tfcli("inspect", *command, "--json")
        assert result.exit_code == 0, (command, result.stderr)
        assert command[0] not in ("ablate", "patch") or not {'"MLP"', '"feed_forward"'} & {*result.stdout.split()}
    assert tfcli("generate", run, text if architecture != "encoder" else "a <mask>").exit_code == 0
    refused = tfcli("explain", "layer", text, "--run", run)
    assert refused.exit_code == 2 and "model.d_ff = 0 leaves attention alone" in " ".join(refused.stderr.split())
    refused = tfcli("export", run, "--format", "hf", "--out", tmp_path / "out")
    assert refused.exit_code == 2 and "model.d_ff = 0" in " ".join(refused.stderr.split())


def test_no_family_of_another_library_holds_it():
    section = ModelSection(vocab_size=10, d_model=8, num_layers=2, num_heads=2)
    assert exportable(section).family is not None
    assert exportable(ModelSection(**{**vars(section), "d_ff": 0})).family is None


@pytest.mark.parametrize("settings", [{"feed_forward_bias": True}, {"residuals": False}])
def test_what_needs_a_feed_forward_network_is_refused(settings: dict):
    with pytest.raises(UsageError, match=r"model.d_ff = 0 leaves no feed-forward network for model\."):
        ModelSection(d_ff=0, **settings)
