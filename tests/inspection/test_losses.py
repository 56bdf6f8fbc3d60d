"""Losses of tokens against `evaluate` on the same text, and against PyTorch's cross-entropy."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tests.support.checkpoints import save_checkpoint
from tfcli.errors import UsageError
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.windows import EvaluationSettings
from tfcli.inspection.predictions import Losses
from tfcli.inspection.predictions.compute import losses
from tfcli.interop.importing import import_run
from tfcli.pipeline.datasets import dataset_for_evaluation
from tfcli.records.evaluation import Scores
from tfcli.runs.load import LoadedRun, load_run

SHORT = "the cat sat"
LONG = "Tom swam across the river. Anna sat on the bank, and the dog slept." * 2


def evaluated(run: LoadedRun, text: str, folder: Path, name: str = "text.txt", *, pseudo: bool = False) -> Scores:
    (folder / name).write_text(text)
    dataset = dataset_for_evaluation(run, (str(folder / name),), lambda event: None)
    return evaluate(run, dataset, EvaluationSettings(pseudo=pseudo))


def written(found: Losses) -> str:
    """The text as it is drawn, without the tokens that frame it."""
    return "".join(one.before + one.text for one in found.tokens[1:-1]) + found.tokens[-1].before


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["one window", "five windows"])
def test_a_decoders_mean_is_what_evaluate_says(trained: Callable[[str], Path], tmp_path: Path, text: str):
    """32 tokens a window; 135 are predicted, the end among them."""
    run = load_run(trained("decoder"))
    found, scores = losses(run, text), evaluated(run, text, tmp_path)
    assert found.scored == scores.tokens == len(text) + 1
    assert found.loss == pytest.approx(scores.loss, rel=1e-5)
    assert found.perplexity == pytest.approx(scores.perplexity, rel=1e-4)
    assert found.bits_per_byte == pytest.approx(scores.bits_per_byte, rel=1e-5)
    assert found.windows == math.ceil((len(text) + 1) / 32)
    assert written(found) == text


def test_each_token_is_scored_by_what_stands_before_it(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    ids = [run.config.roles.bos, *run.tokenizer.encode(SHORT), run.config.roles.eos]
    with torch.no_grad():
        logits = run.model(torch.tensor([ids[:-1]]))[0]
    expected = F.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
    found = losses(run, SHORT)
    assert found.tokens[0].loss is found.tokens[0].rank is found.tokens[0].best is None
    assert [one.loss for one in found.tokens[1:]] == pytest.approx(expected.tolist(), abs=1e-5)
    for place, one in enumerate(found.tokens[1:]):
        order = logits[place].argsort(descending=True).tolist()
        assert one.rank == 1 + order.index(ids[place + 1])
        assert one.best is not None and one.best.token == run.tokenizer.labels(order[:1])[0]
        assert one.best.probability == pytest.approx(float(logits[place].softmax(-1).max()), abs=1e-6)


def test_an_encoders_are_its_pseudo_losses(trained: Callable[[str], Path], tmp_path: Path):
    run = load_run(trained("encoder"))
    text = "the cat sat on the mat, and the dog."
    found, scores = losses(run, text), evaluated(run, text, tmp_path, pseudo=True)
    assert found.kind == "masked" and found.windows == 2
    assert found.scored == scores.pseudo_tokens == len(text)
    assert found.perplexity == pytest.approx(scores.pseudo_perplexity, rel=1e-4)
    assert found.bits_per_byte is None
    assert [one.loss for one in found.tokens if one.token in ("<s>", "</s>")] == [None, None]


def test_a_pairs_mean_is_what_evaluate_says(trained: Callable[[str], Path], tmp_path: Path):
    run = load_run(trained("encoder-decoder"))
    found = losses(run, "o gato dorme", "the book is new")
    scores = evaluated(run, "pt\ten\no gato dorme\tthe book is new\n", tmp_path, "pairs.tsv")
    assert [one.token for one in found.tokens] == ["<s>", "the", "book", "is", "new", "</s>"]
    assert found.scored == scores.tokens == 5
    assert found.loss == pytest.approx(scores.loss, rel=1e-5)
    assert written(found) == "the book is new"
    assert [one.before for one in found.tokens] == ["", "", " ", " ", " ", ""]


def test_a_translation_of_its_own_is_scored(trained: Callable[[str], Path]):
    found = losses(load_run(trained("encoder-decoder")), "o gato dorme")
    assert found.tokens[0].token == "<s>" and found.tokens[-1].token == "</s>"
    assert found.scored == len(found.tokens) - 1


def test_parts_of_a_character_are_shown_by_their_bytes(tmp_path: Path):
    """🙂 is four bytes, and the tokenizer has merged none of them: the first has the character, the others their
    names."""
    import_run(str(save_checkpoint(tmp_path / "theirs", "gpt2")), tmp_path / "run")
    found = losses(load_run(tmp_path / "run"), "a🙂b")
    assert [one.text for one in found.tokens[:-1]] == ["a", "🙂", "⟨9F⟩", "⟨99⟩", "⟨82⟩", "b"]


def test_what_cannot_be_scored(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="The text has no token to score: all are special or unknown"):
        losses(load_run(trained("encoder")), "☃")
    with pytest.raises(UsageError, match="This decoder reads one text, and --target is a second one"):
        losses(load_run(trained("decoder")), "the", "cat")
