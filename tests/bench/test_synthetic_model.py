"""A model that never ends and does not repeat itself; the numbers that a token of it reads, by hand."""

import pytest
import torch

from tfcli.bench.work import synthetic_model, weights_of_a_token
from tfcli.models.build import meta_model
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection

SIZES = {"d_model": 8, "num_layers": 1, "num_heads": 2, "max_seq_len": 16}


def section(name: str) -> ModelSection:
    sizes = {"d_model": 32, "num_layers": 2, "num_heads": 2, "head_dim": None, "num_kv_heads": None, "d_ff": None}
    return build_recipe(preset(name), {"model": {**sizes, "vocab_size": 200, "max_seq_len": 32}}).model


@pytest.mark.parametrize("name", ["modern", "gpt2", "llama", "marian", "t5"])
def test_it_never_ends_and_does_not_repeat_itself(name: str):
    """A thousand best tokens: none is padding or the end, and few are what was read last."""
    model = synthetic_model(section(name), 0)
    ids = torch.randint(2, 200, (32, 32), generator=torch.Generator().manual_seed(0))
    inputs = [ids] if model.section.architecture == "decoder" else [ids, ids]
    with torch.inference_mode():
        best = model(*inputs).argmax(-1)
    assert best.min() >= 2
    assert (best == ids).float().mean() < 0.25
    assert len(best.unique()) > 20


def test_a_seed_says_all_weights():
    first, same, other = (dict(synthetic_model(section("gpt2"), seed).named_parameters()) for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_a_token_of_a_decoder_reads_every_matrix_once():
    """D 8, F 32, Vocab 100: attention 4 · 8², feed-forward 2 · 8 · 32, head 8 · 100: 1,568 numbers. The table of
    embeddings is read as the head where they are one, and not at all where they are two."""
    for tied in (True, False):
        model = meta_model(ModelSection(**SIZES, activation="relu", vocab_size=100, tie_embeddings=tied))
        assert weights_of_a_token(model) == 1568


def test_a_token_of_a_translation_reads_no_encoder():
    """Self-attention 4 · 8², of cross-attention the query and the output 2 · 8², feed-forward 512, head 800."""
    model = meta_model(ModelSection(**SIZES, architecture="encoder-decoder", activation="relu", vocab_size=100))
    assert weights_of_a_token(model) == 256 + 128 + 512 + 800
