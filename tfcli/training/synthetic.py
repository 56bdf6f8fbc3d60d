"""Synthetic batches of random ids: what a step costs does not depend on what the text says."""

from collections.abc import Iterator

import numpy as np

from tfcli.data.batch import IGNORED, Batch
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe


def synthetic_batches(recipe: Recipe) -> Iterator[Batch]:
    """Endless full micro-batches of a recipe's sizes, without padding; those of one seed are always the same.

    A pair has `train.context` tokens on each side. The recipe's vocabulary must be known (`model.vocab_size`).
    """
    train, draw = recipe.train, np.random.default_rng(recipe.train.seed)
    length = train.context or recipe.model.max_seq_len
    sequences = sequences_per_batch(recipe)
    while True:
        yield synthetic_batch(recipe.model, sequences, length, draw, mask_probability=train.mask_probability)


def sequences_per_batch(recipe: Recipe) -> int:
    """Sequences (pairs) in a micro-batch of full length."""
    train = recipe.train
    if train.batch_tokens is None:
        return train.rows
    sides = 2 if recipe.model.objective == "seq2seq" else 1
    return max(1, train.batch_tokens // (sides * (train.context or recipe.model.max_seq_len)))


def synthetic_batch(
    model: ModelSection,
    sequences: int,
    length: int,
    draw: np.random.Generator,
    *,
    target_length: int | None = None,
    mask_probability: float = 0.15,
) -> Batch:
    """One batch of the model's objective: a clm predicts every token, an mlm the same number in each sequence, and a
    pair the whole target, of `target_length` tokens (None: as many as the source)."""
    assert model.vocab_size is not None, "the vocabulary is not decided"
    inputs = draw.integers(model.vocab_size, size=(sequences, length))
    if model.objective == "clm":
        return Batch(inputs, draw.integers(model.vocab_size, size=inputs.shape))
    if model.objective == "mlm":
        masked = max(1, round(mask_probability * length))
        order = draw.permuted(np.tile(np.arange(length), (sequences, 1)), axis=1)
        return Batch(inputs, np.where(order < masked, inputs, IGNORED))
    targets = draw.integers(model.vocab_size, size=(sequences, (target_length or length) + 1))
    return Batch(inputs, targets[:, 1:].copy(), decoder_input_ids=targets[:, :-1].copy())
