"""Pseudo-perplexity against a loop that masks one token after the other."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.pipeline.corpora import WORDS
from tests.support.fakes import ROLES
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import MaskedBatches
from tfcli.evaluation import measure as module
from tfcli.evaluation.evaluate import evaluate, scores_of
from tfcli.evaluation.windows import EvaluationSettings
from tfcli.pipeline.datasets import dataset_for_evaluation, dataset_of_run
from tfcli.runs.load import load_run

PSEUDO = EvaluationSettings(pseudo=True)


def test_each_token_alone(trained: Callable[[str], Path], tmp_path: Path):
    """A text of two windows: every letter is hidden once while all the others of its window are seen."""
    run = load_run(trained("encoder"))
    text = " ".join(WORDS[:9])
    (tmp_path / "text.txt").write_text(text)
    context, roles = run.config.model.max_seq_len, run.config.roles
    ids = [roles.bos, *run.tokenizer.encode(text), roles.eos]
    assert context < len(ids) < 2 * context
    nats = []
    for first in (0, context):
        window = ids[first : first + context]
        for place, token in enumerate(window):
            if token not in roles.ids():
                hidden = torch.tensor([[*window[:place], roles.mask, *window[place + 1 :]]])
                with torch.no_grad():
                    nats.append(-run.model(hidden)[0, place].log_softmax(-1)[token].item())
    scores = evaluate(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), lambda event: None), PSEUDO)
    assert scores.pseudo_tokens == len(nats) == len(text)
    assert scores.pseudo_perplexity == pytest.approx(math.exp(np.mean(nats)), rel=1e-4)


def chosen(monkeypatch: pytest.MonkeyPatch, most: int, lengths: list[int], **settings: Any) -> list[int]:
    """Where the windows begin that are taken of documents of these lengths, 10 tokens a window."""
    monkeypatch.setattr(module, "MOST_TOKENS", most)
    offsets = np.cumsum([0, *lengths])
    view = TokenStreamView([np.full(offsets[-1], 9)], [offsets])
    sizes = {"batch_size": 4, "context": 10, "seed": 0, "mask_probability": 0.15, "vocab_size": 20}
    return module.lone_masks(view, ROLES, MaskedBatches(view, ROLES, **sizes, **settings), 100).starts.tolist()


def test_windows_are_evenly_spread_over_the_text(monkeypatch: pytest.MonkeyPatch):
    """30 tokens of 100 are 3 windows of 10, numbers 0, 10/3 and 20/3; 95 are all of them, none twice. Documents of
    different lengths come to be masked in the order of their lengths, and are chosen in that of the text."""
    assert chosen(monkeypatch, 30, [100]) == [0, 30, 60]
    assert chosen(monkeypatch, 95, [100]) == chosen(monkeypatch, 9999, [100]) == list(range(0, 100, 10))
    assert chosen(monkeypatch, 15, [9, 3, 8, 4, 7, 5], documents=True) == [0, 12, 24]


def test_of_a_long_text_some_windows_are_taken(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    """About as many tokens as are allowed, from windows all over the text; the cost is told before."""
    run = load_run(trained("encoder"))
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    monkeypatch.setattr(module, "MOST_TOKENS", 200)
    told: list[str] = []
    scores = scores_of(module.measure(run, data, PSEUDO, lambda event: told.append(event.detail)))
    context, length = run.config.model.max_seq_len, len(data.text("validation"))
    assert scores.pseudo_tokens is not None
    assert 200 - 3 * context < scores.pseudo_tokens <= 200 + 2 * context
    assert f"of {length:,} tokens, each masked alone: " in told[0]
    assert scores.pseudo_perplexity is not None
    assert scores.pseudo_perplexity > 1
    assert evaluate(run, data).pseudo_perplexity is None
