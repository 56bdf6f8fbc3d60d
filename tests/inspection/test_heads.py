"""Heads of real runs: measured again from the weights that `inspect attention` shows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tfcli.errors import UsageError
from tfcli.inspection.attention.weights import attention
from tfcli.inspection.heads.repeated_tokens import repeated_sequences
from tfcli.inspection.heads.roles import heads
from tfcli.inspection.heads.word_weights import kind_weights
from tfcli.models.build import build_model
from tfcli.recipe.data import DataSection
from tfcli.runs.load import LoadedRun, load_run

TEXT = "Tom swam to the bank"


@pytest.fixture(scope="module")
def decoder(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("decoder"))


def test_statistics_are_those_of_the_weights_shown(decoder: LoadedRun):
    [shown] = attention(decoder, TEXT)
    record = heads(decoder, TEXT)
    assert [(head.layer, head.head) for head in record.heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for head in record.heads:
        weights = shown.weights[head.layer, head.head].astype(np.float64)
        rows = range(1, len(weights))
        assert head.previous == pytest.approx(np.mean([weights[t, t - 1] for t in rows]), abs=1e-6)
        assert head.first == pytest.approx(np.mean([weights[t, 0] for t in rows]), abs=1e-6)
        assert head.itself == pytest.approx(np.mean([weights[t, t] for t in rows]), abs=1e-6)
        assert head.sharpness == pytest.approx(np.mean(weights.max(axis=1)), abs=1e-6)
        assert (head.next, head.in_order) == (None, None)


def test_copies_are_measured_on_random_tokens_read_twice(decoder: LoadedRun):
    """32 positions hold <s> and two copies of 15 tokens; query 16 + i is the second copy of token 1 + i."""
    sequences = repeated_sequences(decoder)
    first = sequences[0].inputs.decoder
    assert first is not None
    assert (len(first), sequences[0].period) == (31, 15)
    assert first[1:16] == first[16:]
    assert len(set(first[1:16])) == 15
    assert sequences == repeated_sequences(decoder), "always the same"
    expected = []
    for sequence in sequences:
        weights = kind_weights(decoder, sequence.inputs, "decoder_self")[1, 0]
        expected.append(np.mean([weights[16 + i, 2 + i] for i in range(15)]))
    head = next(one for one in heads(decoder, TEXT).heads if (one.layer, one.head) == (1, 0))
    assert head.induction == pytest.approx(np.mean(expected), abs=1e-6)


def test_an_induction_head_is_found(decoder: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """Weights of an induction head in the place of layer 1, head 1: everything else stays as it is."""
    from tfcli.inspection.heads import copies, roles
    from tfcli.inspection.passes import ModelPass, record_model

    def with_induction(model: object, tensors: list[torch.Tensor]) -> ModelPass:
        passed = record_model(decoder.model, tensors)
        weights = passed.attentions("decoder_self")[1].weights
        ids = tensors[0][0].tolist()
        for query, token in enumerate(ids):
            earlier = [place for place in range(query) if ids[place] == token]
            weights[1, query] = 0
            weights[1, query, earlier[-1] + 1 if earlier else query] = 1
        return passed

    for module in (copies, roles):
        monkeypatch.setattr(module, "record_model", with_induction)
    found = heads(decoder)
    head = next(one for one in found.heads if (one.layer, one.head) == (1, 1))
    assert (head.role, head.role_score) == ("induction", 1.0)
    assert all(one.role != "induction" for one in found.heads if one is not head)


def test_without_a_text_documents_of_the_runs_own_corpus_are_read(decoder: LoadedRun):
    """16 stories, each longer than the 32 tokens of the context."""
    record = heads(decoder)
    assert (record.measured_on, record.tokens) == ("16 documents of builtin:stories", 16 * 32)
    assert (record.repeated, record.sequences) == (15, 4)


def test_a_run_of_other_texts_is_measured_on_random_tokens(decoder: LoadedRun):
    own = replace(decoder, recipe=replace(decoder.recipe, data=DataSection(source="book.txt")))
    assert heads(own).measured_on == "4 sequences of random tokens read twice"


def test_an_encoder_decoder_has_three_kinds(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    record = heads(run, "O gato dorme.", "The cat sleeps.")
    assert list(dict.fromkeys(head.kind for head in record.heads)) == ["encoder_self", "decoder_self", "cross"]
    cross = [head for head in record.heads if head.kind == "cross"]
    assert all(head.in_order is not None and head.induction is None and head.distance is None for head in cross)
    assert [head.kind for head in heads(run, kind="cross").heads] == ["cross"] * 4


def test_an_encoders_favourite_tokens_hold_shares_of_its_weight(trained: Callable[[str], Path]):
    """One text of three tokens: what each gets in the mean over the three rows."""
    run = load_run(trained("encoder"))
    [shown] = attention(run, "T")
    head = heads(run, "T").heads[0]
    received = dict(zip(shown.key_tokens, shown.weights[0, 0].mean(axis=0).tolist(), strict=True))
    assert dict(head.favourites) == pytest.approx(received, abs=1e-6)
    assert [token for token, _ in head.favourites] == sorted(received, key=lambda token: -received[token])
    assert head.next is not None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"text": "Tom", "kind": "cross"}, "This decoder has no cross attention"),
        ({"text": ""}, "The text has one token"),
        ({"target": "Tom"}, "--target belongs to a TEXT"),
    ],
)
def test_what_cannot_be_measured_is_refused(decoder: LoadedRun, arguments: dict[str, str], problem: str):
    with pytest.raises(UsageError, match=problem):
        heads(decoder, **arguments)  # type: ignore[arg-type]


def test_a_window_of_one_token_leaves_nothing_to_share(decoder: LoadedRun):
    """Every query sees itself alone: the largest entropy there could be is 0, too."""
    config = replace(decoder.config, model=replace(decoder.config.model, sliding_window=1))
    record = heads(replace(decoder, config=config, model=build_model(config.model).eval()), TEXT)
    for head in record.heads:
        assert (head.entropy, head.entropy_share, head.sharpness) == (0.0, None, 1.0)
        assert (head.role, head.role_score) == ("itself", 1.0)
