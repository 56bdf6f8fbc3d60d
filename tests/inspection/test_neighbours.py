"""Nearest tokens: cosines by numpy, and which words are tokens."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tfcli.errors import UsageError
from tfcli.inspection.embeddings.compute import neighbours, token_of
from tfcli.recipe.data import TokenizerSection
from tfcli.runs.load import LoadedRun, load_run
from tfcli.tokenization.train import train_tokenizer


@pytest.fixture(scope="module")
def translator(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("encoder-decoder"))


def test_cosines_and_order_are_those_of_numpy(translator: LoadedRun):
    record = neighbours(translator, ["the", "o"], 5)
    matrix = translator.model.embedding.weight.detach().numpy().astype(np.float64)  # type: ignore[union-attr]
    ordinary = sorted(translator.tokenizer.ordinary_ids)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    for one in record.tokens:
        cosines = {token: float(unit[token] @ unit[one.token_id]) for token in ordinary if token != one.token_id}
        best = sorted(cosines, key=lambda token: -cosines[token])[:5]
        assert [n.token_id for n in one.neighbours] == best
        assert [n.cosine for n in one.neighbours] == pytest.approx([cosines[token] for token in best], abs=1e-6)
        assert one.norm == pytest.approx(np.linalg.norm(matrix[one.token_id]))
    pairs = unit[ordinary] @ unit[ordinary].T
    off_diagonal = pairs[~np.eye(len(ordinary), dtype=bool)]
    assert record.mean_cosine == pytest.approx(off_diagonal.mean(), abs=1e-6)
    assert record.tokens[0].token == "the" and record.vocabulary == len(ordinary)


def test_special_tokens_are_nobodys_neighbours(translator: LoadedRun):
    record = neighbours(translator, ["the"], 10_000)
    found = {one.token_id for one in record.tokens[0].neighbours}
    assert found == translator.tokenizer.ordinary_ids - {record.tokens[0].token_id}


def test_the_output_matrix_is_the_heads(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    tied, head = (neighbours(run, ["a"], 3, matrix) for matrix in ("input", "output"))
    assert tied.tied and tied.tokens == head.tokens
    with torch.no_grad():
        other = torch.nn.Parameter(-run.model.head.weight.flip(1))  # type: ignore[operator, union-attr]
        other[:, 0] *= 3
        run.model.head.weight = other
    assert neighbours(run, ["a"], 3, "output").tokens != tied.tokens
    assert neighbours(run, ["a"], 3, "input").tokens == tied.tokens


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("the the", "is 2 tokens and has no vector of its own: 'the' 'the'"),
        ("zzzzqq", "is not in the vocabulary"),
        ("", "'' is no token"),
    ],
)
def test_what_is_no_token_is_said_in_a_sentence(translator: LoadedRun, text: str, problem: str):
    with pytest.raises(UsageError, match=problem):
        neighbours(translator, [text], 3)


def test_words_that_carry_their_space_are_meant_with_it():
    """Of " the" and "the" the word; of what exists without the space alone, that."""
    texts = ["the cat and the hat"] * 9
    tokenizer, _ = train_tokenizer(lambda: iter(texts), TokenizerSection(algorithm="bpe", vocab_size=280))
    assert tokenizer.labels([token_of(tokenizer, " the")]) == [" the"]
    assert tokenizer.labels([token_of(tokenizer, "the")]) == [" the"]
    assert tokenizer.labels([token_of(tokenizer, "q")]) == ["q"]
