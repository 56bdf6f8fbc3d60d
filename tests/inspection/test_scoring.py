"""The formula of the scores, with its divisor worked out, and the scores themselves."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.runs import tiny_recipe, train_tiny
from tfcli.inspection.attention.compute import attention, score_formula
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run

SECTION = ModelSection(d_model=64, num_heads=4, positions="learned")


@pytest.mark.parametrize(
    ("settings", "kind", "formula"),
    [
        ({}, "decoder_self", "scores = q · k / √Dh, √16 = 4"),
        ({"num_heads": 8}, "decoder_self", "scores = q · k / √Dh, √8 = 2.828"),
        ({"attention_score": "dot"}, "decoder_self", "scores = q · k, not divided"),
        ({"attention_softcap": 30.0}, "decoder_self", "√16 = 4; capped to 30 · tanh(score / 30)"),
        ({"positions": "alibi"}, "decoder_self", "scores = q · k / √Dh, √16 = 4; + ALiBi's bias"),
        ({"positions": "rotary"}, "decoder_self", "√16 = 4; q and k are turned by their positions (rotary)"),
        ({"positions": "rotary"}, "cross", "scores = q · k / √Dh, √16 = 4"),
    ],
)
def test_the_formula_says_what_is_divided_by_what(settings: dict[str, Any], kind: Any, formula: str):
    found = score_formula(replace(SECTION, **settings), kind)
    assert found.endswith(formula)


def softmax_of_open(scores: Any, weights: Any) -> Any:
    powers = np.where(weights > 0, np.exp(scores - scores.max(axis=-1, keepdims=True)), 0)
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_weights_are_the_softmax_of_the_scores_that_are_not_masked(trained: Callable[[str], Path], architecture: str):
    for record in attention(load_run(trained(architecture)), "the cat"):
        np.testing.assert_allclose(softmax_of_open(record.scores, record.weights), record.weights, atol=1e-6)
        hidden = np.array([record.hidden(0, head) for head in range(2)])
        assert record.mask is not None
        assert np.array_equal(hidden, record.weights[0] == 0), "nothing is hidden but the future"


def test_scores_hold_the_position_bias(tmp_path: Path):
    """ALiBi of two heads: slopes 2⁻⁴ and 2⁻⁸ (Press et al. 2022, section 3), times how far the key lies back."""
    train_tiny(tiny_recipe("decoder", {"model": {"positions": "alibi"}, "train": {"steps": 2}}), tmp_path / "run")
    [record] = attention(load_run(tmp_path / "run"), "a cat")
    assert record.bias is not None
    assert record.bias[0, :, 3, 1].tolist() == [-2 / 16, -2 / 256]
    np.testing.assert_allclose(softmax_of_open(record.scores, record.weights), record.weights, atol=1e-6)
    assert record.formula.endswith("+ ALiBi's bias")
