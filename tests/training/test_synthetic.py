"""Random batches have the sizes of a recipe's real ones."""

import numpy as np
import pytest

from tfcli.data.batch import IGNORED
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.training.memory import sequences_per_batch, synthetic_batch, synthetic_batches


def recipe(architecture: str = "decoder", **train: object) -> Recipe:
    model = {"architecture": architecture, "d_model": 8, "num_heads": 2, "max_seq_len": 16, "vocab_size": 12}
    return build_recipe({"model": model, "train": {"batch_size": 3, **train}}).resolved()


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_full_batches_of_ids_of_the_vocabulary(architecture: str):
    batches = synthetic_batches(recipe(architecture, context=10))
    batch, other = next(batches), next(batches)
    assert batch.input_ids.shape == batch.labels.shape == (3, 10)
    assert (batch.padding_mask, batch.padding) == (None, 0)
    assert set(np.unique(batch.input_ids)) <= set(range(12))
    assert set(np.unique(batch.labels)) <= {*range(12), IGNORED}
    assert not np.array_equal(batch.input_ids, other.input_ids)
    again = next(synthetic_batches(recipe(architecture, context=10)))
    assert np.array_equal(batch.input_ids, again.input_ids) and np.array_equal(batch.labels, again.labels)


def test_what_each_objective_predicts():
    """Every token; 15 % of 20, which is 3, in each sequence; the whole target."""
    draw = np.random.default_rng(0)
    sizes = {"vocab_size": 12, "d_model": 8, "num_heads": 2}
    assert synthetic_batch(ModelSection(**sizes), 4, 20, draw).target_tokens == 80
    masked = synthetic_batch(ModelSection(**sizes, architecture="encoder"), 4, 20, draw)
    assert [int((row != IGNORED).sum()) for row in masked.labels] == [3, 3, 3, 3]
    assert len({tuple(row != IGNORED) for row in masked.labels}) > 1, "in other places each"
    pairs = synthetic_batch(ModelSection(**sizes, architecture="encoder-decoder"), 4, 20, draw, target_length=5)
    assert pairs.decoder_input_ids is not None
    assert (pairs.decoder_input_ids.shape, pairs.labels.shape, pairs.tokens) == ((4, 5), (4, 5), 4 * 25)
    assert np.array_equal(pairs.decoder_input_ids[:, 1:], pairs.labels[:, :-1]), "labels are the next inputs"


@pytest.mark.parametrize(
    ("architecture", "tokens", "sequences"),
    [("decoder", 100, 6), ("encoder-decoder", 100, 3), ("encoder-decoder", 5, 1)],
)
def test_a_budget_of_tokens_is_as_many_full_sequences(architecture: str, tokens: int, sequences: int):
    """Of 16 tokens a sequence, and 32 a pair."""
    assert sequences_per_batch(recipe(architecture, batch_tokens=tokens)) == sequences
    assert sequences_per_batch(recipe(architecture)) == 3
