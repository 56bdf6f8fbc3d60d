"""Texts as tokens: their places and bytes, and the lengths of their vectors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tfcli.inspection.embeddings.compute import tokens
from tfcli.inspection.passes import read_text, record_model
from tfcli.recipe.data import TokenizerSection
from tfcli.runs.load import load_run
from tfcli.tokenization.train import train_tokenizer


def test_a_sentence_by_hand(trained: Callable[[str], Path]):
    """Words are tokens here; what no training text had is unknown, and stands for its own characters."""
    record = tokens(load_run(trained("encoder-decoder")), "o the qwxz é")
    rows = [(row.token, row.role, row.first, row.end, row.bytes) for row in record.tokens]
    assert rows == [
        ("o", "text", 0, 1, 1),
        ("the", "text", 2, 5, 3),
        ("<unk>", "unknown", 6, 10, 4),
        ("é", "text", 11, 12, 2),
        ("</s>", "special", None, None, 0),
    ]
    assert (record.characters, record.bytes, record.words) == (12, 13, 4)
    assert (record.of_text, record.fertility, record.bytes_per_token) == (4, 1.0, 13 / 4)


def test_norms_are_those_of_what_enters_the_model(trained: Callable[[str], Path]):
    """An encoder that has learned its positions: e + p enters, and without a norm its length lies between theirs."""
    run = load_run(trained("encoder"))
    record = tokens(run, "a cat")
    embedding = run.model.embedding
    rows = embedding.weight.detach().numpy() * embedding.scale  # type: ignore[union-attr, operator]
    places = embedding.positions.detach().numpy()  # type: ignore[union-attr, operator]
    for row in record.tokens:
        assert row.norm == pytest.approx(np.linalg.norm(rows[row.token_id]), rel=1e-5)
        assert row.position_norm == pytest.approx(np.linalg.norm(places[row.position]), rel=1e-5)
    entered = record_model(run.model, read_text(run, "a cat").tensors(run.device)).last.embedded
    summed = [rows[row.token_id] + places[row.position] for row in record.tokens]
    np.testing.assert_allclose(entered.detach().numpy(), summed, atol=1e-5)


def test_positions_inside_attention_have_no_vector_here(trained: Callable[[str], Path]):
    record = tokens(load_run(trained("decoder")), "a")
    assert [row.position_norm for row in record.tokens] == [None, None]
    assert record.tokens[0].role == "special"


def test_a_mask_stands_for_no_characters(trained: Callable[[str], Path]):
    record = tokens(load_run(trained("encoder")), "a<mask>t")
    assert [row.token for row in record.tokens] == ["<s>", "a", "<mask>", "t", "</s>"]
    assert [row.bytes for row in record.tokens] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("text", ["the 日本 cat\n", "", " é the"])
def test_bytes_of_a_byte_level_text_add_up_to_its_own(trained: Callable[[str], Path], text: str):
    from dataclasses import replace

    tokenizer, _ = train_tokenizer(lambda: iter(["the cat"] * 9), TokenizerSection(algorithm="bpe", vocab_size=262))
    run = load_run(trained("decoder"))
    weight = run.model.embedding.weight  # type: ignore[union-attr]
    wide = load_run(trained("decoder")).model
    wide.embedding.weight = type(weight)(weight.new_zeros(tokenizer.vocab_size, weight.shape[1]))  # type: ignore[union-attr, operator]
    record = tokens(replace(run, tokenizer=tokenizer, model=wide), text)
    assert sum(row.bytes for row in record.tokens) == len(text.encode()) == record.bytes
