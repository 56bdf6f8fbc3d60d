"""Predictions against NumPy's softmax, `transformers`' logits and the filling of masks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.checkpoints import UNUSED_ROWS, save_checkpoint
from tfcli.errors import UsageError
from tfcli.generation.fill_mask import fill_all
from tfcli.inspection.predictions.compute import predictions
from tfcli.interop.importing import import_run
from tfcli.models.transformer import Encoder
from tfcli.runs.load import load_run


def test_of_an_imported_gpt2_they_are_those_of_transformers(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = save_checkpoint(tmp_path / "theirs", "gpt2")
    import_run(str(folder), tmp_path / "run")
    run, text = load_run(tmp_path / "run"), "The cat sat"
    ids = run.tokenizer.encode(text)
    with torch.no_grad():
        theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)(torch.tensor([ids])).logits[0].double().numpy()
    powers = np.exp(theirs - theirs.max(-1, keepdims=True))
    share = powers / powers.sum(-1, keepdims=True)
    found = predictions(run, text, top_k=7)
    assert found.kind == "next" and found.position == len(ids) - 1
    for place, one in enumerate(found.predictions):
        assert one.read == run.tokenizer.labels([ids[place]])[0]
        assert one.entropy == pytest.approx(-(share[place] * np.log(share[place])).sum(), abs=1e-4)
        order = np.argsort(-share[place, :-UNUSED_ROWS])[:7]
        assert [two.token for two in one.candidates] == run.tokenizer.labels(order)
        assert [two.probability for two in one.candidates] == pytest.approx(share[place, order], abs=1e-5)
        if place + 1 < len(ids):
            right = ids[place + 1]
            assert one.answer == run.tokenizer.labels([right])[0]
            assert one.probability == pytest.approx(share[place, right], abs=1e-5)
            assert one.rank == 1 + int((share[place, :-UNUSED_ROWS] > share[place, right]).sum())
    last = found.predictions[-1]
    assert (last.answer, last.rank, last.probability) == (None, None, None)


def test_a_mask_gets_what_fills_it_and_other_places_what_would_if_they_were_masked(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    assert isinstance(run.model, Encoder)
    text = "th<mask> cat s<mask>t"
    found = predictions(run, text, top_k=30)
    masks = [one for one in found.predictions if one.read == "<mask>"]
    assert found.kind == "masked" and found.position == masks[0].position == 3
    assert [one.answer for one in masks] == [None, None]
    for one, filled in zip(masks, fill_all(run.model, run.tokenizer, [text], 3)[0].predictions, strict=True):
        named = {candidate.token: candidate.probability for candidate in one.candidates}
        for candidate in filled:
            assert named[candidate.token] == pytest.approx(candidate.probability, abs=1e-6)
    others = [one for one in found.predictions if one.read not in ("<mask>", "<s>", "</s>")]
    assert all(one.answer == one.read and one.rank for one in others)
    ends = found.predictions[0], found.predictions[-1]
    assert [(one.read, one.answer, one.rank) for one in ends] == [("<s>", None, None), ("</s>", None, None)]
    [hidden] = fill_all(run.model, run.tokenizer, ["<mask>h<mask> cat s<mask>t"], 3)
    named = {candidate.token: candidate.probability for candidate in found.predictions[1].candidates}
    for candidate in hidden.predictions[0]:
        assert named[candidate.token] == pytest.approx(candidate.probability, abs=1e-6)


def test_an_encoder_that_copies_what_it_reads_finds_no_token_that_is_masked(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """The likeliest token is the one that is read; of a word, all pieces are masked."""
    run = load_run(trained("encoder"))
    assert isinstance(run.model, Encoder)
    read: list[torch.Tensor] = []

    def copies(ids: torch.Tensor) -> torch.Tensor:
        read.append(ids)
        return torch.nn.functional.one_hot(ids, run.tokenizer.vocab_size).float()

    monkeypatch.setattr(run.model, "hidden", copies)
    monkeypatch.setattr(run.model, "head", torch.nn.Identity())
    ranks = [one.rank for one in predictions(run, "the cat").predictions]
    assert ranks.count(None) == 2 and len(ranks) == 9, "<s> and </s>"
    assert all(rank is None or rank > 1 for rank in ranks)
    [ids] = read
    assert ids.tolist() == [
        [run.config.roles.mask if n == row and 0 < n < 8 else one for n, one in enumerate(ids[0].tolist())]
        for row in range(9)
    ]
    predictions(run, "the cat", words=True)
    assert [int((row == run.config.roles.mask).sum()) for row in read[-1]] == [0, 3, 4, 0], (
        "the blank belongs to the word"
    )


def test_a_target_is_predicted_to_its_end_and_a_translation_to_its_last_token(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    given = predictions(run, "o gato", "the book")
    assert [one.answer for one in given.predictions] == ["the", "book", "</s>"]
    assert given.position == 2
    own = predictions(run, "o gato")
    assert own.predictions[-1].answer is None
    assert own.position == max(0, len(own.predictions) - 2)


def test_a_model_without_a_head_predicts_nothing(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    config = replace(run.config, model=replace(run.config.model, head="none", head_bias=False))
    with pytest.raises(UsageError, match="A model without a head"):
        predictions(replace(run, config=config), "the")
