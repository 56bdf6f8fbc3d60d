"""Words and the tokens that spell them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.embeddings import Word
from tfcli.inspection.embeddings.compute import tokens
from tfcli.inspection.heads.statistics import on_words, spelled
from tfcli.inspection.predictions import ScoredToken
from tfcli.inspection.predictions.compute import lens, losses, predictions
from tfcli.inspection.words import attention_in_words, losses_in_words
from tfcli.records.arrays import frozen
from tfcli.records.generation import Candidate
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


WORDS = (Word("<s>", (0,), "special"), Word("Tom", (1, 2)), Word("ran", (3,)))
"""Four tokens, <s> T om ran, that spell three words."""


def test_attention_is_summed_over_keys_and_averaged_over_queries():
    """Tom looks at <s> with (0.6 + 0.2) / 2, at itself with (0.4 + 0 + 0.5 + 0.3) / 2; ran at Tom with 0.3 + 0.4."""
    tokens = ("<s>", "T", "om", " ran")
    weights = frozen([[[[1, 0, 0, 0], [0.6, 0.4, 0, 0], [0.2, 0.5, 0.3, 0], [0.1, 0.3, 0.4, 0.2]]]])
    mask = frozen(np.tri(4), np.bool_)
    record = AttentionRecord(
        "decoder_self", tokens, tokens, weights, scores=weights, mask=mask, query_words=WORDS, key_words=WORDS
    )
    merged = attention_in_words(record)
    assert merged.query_tokens == merged.key_tokens == ("<s>", "Tom", "ran")
    np.testing.assert_allclose(merged.weights[0, 0], [[1, 0, 0], [0.4, 0.6, 0], [0.1, 0.7, 0.2]], rtol=1e-6)
    assert merged.mask is not None and merged.mask.tolist() == np.tri(3, dtype=bool).tolist()
    assert merged.scores is None, "before the softmax they do not add up"
    assert np.array_equal(attention_in_words(merged).weights, merged.weights), "words are not merged twice"


def test_losses_are_summed_and_what_is_not_scored_stays_so():
    pieces = [
        ScoredToken(0, "<s>", "", "<s>", None, None, None),
        ScoredToken(1, "T", "", "T", 2.0, 7, Candidate("A", 0.5)),
        ScoredToken(2, "om", "", "om", 0.5, 2, Candidate("im", 0.25)),
        ScoredToken(3, " ran", "", " ran", 1.0, 1, Candidate(" ran", 0.4)),
    ]
    begin, tom, ran = losses_in_words(pieces, WORDS)
    assert (begin.loss, begin.token) == (None, "<s>")
    assert (tom.position, tom.token, tom.text, tom.loss, tom.rank, tom.best) == (
        1,
        "Tom",
        "Tom",
        2.5,
        7,
        pieces[1].best,
    )
    assert (ran.position, ran.text, ran.loss) == (2, " ran", 1.0)


def test_every_picture_of_a_text_has_the_same_words(trained: Callable[[str], Path]):
    """Every letter is a token of this run: "Tom, ran" is 1 + 3 + 1 + 4 with <s>, and the space goes with "ran"."""
    run, text = load_run(trained("decoder")), "Tom, ran"
    shown = ("<s>", "Tom", ",", "ran")
    assert attention_in_words(attention(run, text)[0]).query_tokens == shown
    assert tuple(row.token for row in tokens(run, text, words=True).tokens) == shown
    assert tuple(one.token for one in losses(run, text, words=True).tokens) == (*shown, "</s>")
    assert losses(run, text, words=True).loss == losses(run, text).loss
    seen, whole = lens(run, text, words=True), lens(run, text)
    assert seen.tokens == shown
    places = [0, 3, 4, 8]  # the last letter of each, behind which the next word is predicted
    assert np.array_equal(seen.final, whole.final[:, places])
    told, all_told = predictions(run, text, words=True), predictions(run, text)
    assert [one.read for one in told.predictions] == list(shown)
    assert [one.probability for one in told.predictions] == [all_told.predictions[at].probability for at in places]
    assert (told.position, all_told.position) == (3, 8)


def test_a_word_of_an_encoder_is_predicted_at_its_first_piece(trained: Callable[[str], Path]):
    run, text = load_run(trained("encoder")), "Tom <mask> ran"
    told, whole = predictions(run, text, words=True), predictions(run, text)
    first = [read.read for read in whole.predictions].index("<mask>")
    assert told.predictions[told.position].read == "<mask>"
    assert told.predictions[told.position].candidates == whole.predictions[first].candidates
