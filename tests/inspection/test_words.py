"""Words and the tokens that spell them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfcli.inspection.heads.word_weights import on_words, spelled
from tfcli.runs.load import load_run


def test_punctuation_belongs_to_no_word(trained: Callable[[str], Path]):
    """Every letter is a token of this run, so that places are those of the letters."""
    text = 'He said, "No!"'
    found = spelled(load_run(trained("decoder")).tokenizer, text)
    assert found.words == ("He", "said", "No")
    assert found.places == ((0, 1), (3, 4, 5, 6), (10, 11))
    assert len(found.ids) == len(text)


def test_a_word_gets_what_its_tokens_get():
    rows = np.array([[[0.1, 0.2, 0.3, 0.4]]], np.float32)
    np.testing.assert_allclose(on_words(rows, [(0,), (2, 3), ()]), [[[0.1, 0.7, 0.0]]], rtol=1e-6)
