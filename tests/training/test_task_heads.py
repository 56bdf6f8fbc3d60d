"""Task heads in training: their losses by PyTorch's own, what they take over, resumed to the bit, what they learn."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.runs import Settings, resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import UsageError
from tfcli.evaluation.evaluate import evaluate
from tfcli.generation.generate import generate
from tfcli.models.build import build_model
from tfcli.models.flops import flops_by_part
from tfcli.models.objective import scores_of_labels
from tfcli.models.transformer import Transformer
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.records.evaluation import Scores
from tfcli.records.generation import Answered, Classified, Tagged
from tfcli.records.runs import Evaluated
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_metrics
from tfcli.training.objective import TrainingLoss

HEAD = {"head_bias": True, "tie_embeddings": False}
SECTION = ModelSection("encoder", vocab_size=20, max_seq_len=8, d_model=8, num_heads=2, num_layers=1, **HEAD)  # type: ignore[arg-type]
DEVICE = torch.device("cpu")


def model_of(*labels: str) -> Transformer:
    return build_model(replace(SECTION, labels=labels), seed=3)


def batch_of(labels: list[list[int]], **more: Any) -> Batch:
    ids = np.random.default_rng(0).integers(20, size=(len(labels), 6))
    return Batch(ids, np.array(labels), **more)


def test_a_head_has_a_row_a_label() -> None:
    model = model_of("a", "b", "c")
    assert {name: tuple(p.shape) for name, p in model.head.named_parameters()} == {"weight": (3, 8), "bias": (3,)}
    ids = torch.zeros(2, 5, dtype=torch.long)
    assert model(ids).shape == (2, 5, 3)
    assert flops_by_part(model.section, 2, 5).head == 2 * 5 * 2 * 8 * 3


def test_the_loss_of_labels_is_cross_entropy_with_class_weights() -> None:
    model, recipe = model_of("a", "b", "c"), build_recipe({"train": {"label_smoothing": 0.1}})
    batch = batch_of([[2, IGNORED, 0, IGNORED, IGNORED, 1], [IGNORED, 1, IGNORED, IGNORED, IGNORED, IGNORED]])
    loss = TrainingLoss(model, recipe.train, torch.tensor([0.5, 1.0, 3.0]))(batch)
    logits, labels = model(torch.tensor(batch.input_ids)).flatten(0, 1), torch.tensor(batch.labels).flatten()
    plain = F.cross_entropy(logits, labels, reduction="sum")
    weighted = F.cross_entropy(
        logits, labels, torch.tensor([0.5, 1.0, 3.0]), label_smoothing=0.1, reduction="sum", ignore_index=IGNORED
    )
    torch.testing.assert_close(loss, torch.stack([plain, weighted]))
    loss[1].backward()
    assert model.head.weight.grad is not None  # type: ignore[union-attr]


def test_the_loss_of_spans_is_that_of_the_places_of_both_ends() -> None:
    model, recipe = model_of("first", "last"), build_recipe({})
    answerable = np.array([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0]], bool)
    batch = batch_of([[2, 4], [3, 3]], answerable=answerable)
    scores = model(torch.tensor(batch.input_ids))
    by_hand = 0.0
    for row, ends in enumerate(batch.labels.tolist()):
        for end, place in enumerate(ends):
            allowed = scores[row, answerable[row], end]
            by_hand += (allowed.exp().sum().log() - scores[row, place, end]).item()
    loss = TrainingLoss(model, recipe.train)(batch)
    assert loss.tolist() == pytest.approx([by_hand] * 2, rel=1e-5)
    found = scores_of_labels(model, batch, DEVICE)
    assert (found.nats.shape, found.nats.sum().item()) == ((4,), pytest.approx(by_hand, rel=1e-5))


def answers(path: Path, number: int) -> str:
    """Questions about who ran where, as JSON Lines."""
    draw, lines = random.Random(0), []
    for _ in range(number):
        who, where = (
            draw.choice(["Tom", "Ann", "Ben", "Mia", "Leo", "Sue"]),
            draw.choice(["lake", "park", "road", "house"]),
        )
        asked, answer = draw.choice([("Who ran?", who), ("Where to?", where)])
        when = draw.choice(["One day", "In the morning", "Then"])
        lines.append({"context": f"{when} {who} ran to the {where}.", "question": asked, "answer": answer})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def task_recipe(task: str, folder: Path, architecture: str = "encoder", *settings: Settings) -> Recipe:
    own = {"data": {"source": answers(folder / "answers.jsonl", 1500)}} if task == "span" else {}
    short: Settings = {"model": {"max_seq_len": 64}, "tokenizer": {"algorithm": "word"}, "train": {"task": task}}
    return tiny_recipe(architecture, short, own, *settings)


def test_a_run_knows_its_labels_and_says_its_f1(tmp_path: Path) -> None:
    _, events = train_tiny(task_recipe("classify", tmp_path), tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.config.model.labels == ("money", "river")
    assert all(one.f1 is not None and 0 <= one.f1 <= 1 for one in events.of(Evaluated))
    assert all(
        "f1" in line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["event"] == "evaluated"
    )
    _, others = train_tiny(tiny_recipe(), tmp_path / "other")
    assert all(one.f1 is None for one in others.of(Evaluated))
    assert not any("f1" in line for line in read_metrics(tmp_path / "other" / "metrics.jsonl"))


@pytest.mark.parametrize(("task", "architecture"), [("classify", "decoder"), ("tag", "encoder"), ("span", "encoder")])
def test_a_training_that_was_interrupted_ends_with_the_same_weights(
    tmp_path: Path, task: str, architecture: str
) -> None:
    more = {} if task == "span" else {"train": {"class_weights": "balanced"}}
    recipe = task_recipe(task, tmp_path, architecture, more)
    train_tiny(recipe, tmp_path / "whole")
    train_tiny(recipe, tmp_path / "parts", stop=stop_after(5))
    finished, _ = resume_tiny(tmp_path / "parts")
    assert finished.step == recipe.train.steps
    ours, theirs = (weights(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert same(ours, theirs)


def test_a_task_takes_the_weights_of_a_language_model_and_begins_its_head_afresh(tmp_path: Path) -> None:
    plain = tiny_recipe("encoder", {"model": {"max_seq_len": 64}, "tokenizer": {"algorithm": "word"}})
    train_tiny(plain, tmp_path / "plain")
    barely = {"train": {"steps": 1, "learning_rate": 1e-9}}
    recipe = task_recipe("classify", tmp_path, "encoder", barely)
    train_tiny(recipe, tmp_path / "task", init=tmp_path / "plain")
    before, after = (weights(tmp_path / name / "model.safetensors") for name in ("plain", "task"))
    assert after["head.weight"].shape == (2, 16)
    assert after.keys() == before.keys() | {"head.weight", "head.bias"}
    for name in before:
        torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)

    # On with the same labels, the head goes on too; back to a language model, it does not.
    train_tiny(recipe, tmp_path / "again", init=tmp_path / "task")
    again = weights(tmp_path / "again" / "model.safetensors")
    torch.testing.assert_close(again["head.weight"], after["head.weight"], atol=1e-6, rtol=0)
    train_tiny(replace(plain, train=replace(plain.train, steps=1)), tmp_path / "back", init=tmp_path / "task")
    assert load_run(tmp_path / "back").config.model.labels is None

    other = replace(recipe, model=replace(recipe.model, num_layers=2))
    with pytest.raises(UsageError, match=r"its model.num_layers is 1, not 2"):
        train_tiny(other, tmp_path / "none", init=tmp_path / "task")
    assert not (tmp_path / "none").exists()


REFUSED = [
    ({"train": {"task": "tag", "objective": "prefix"}}, "train.objective = 'prefix' has no meaning with"),
    ({"train": {"task": "span", "class_weights": "balanced"}}, "class_weights, which weighs labels, has no meaning"),
    ({"train": {"task": "span", "label_smoothing": 0.1}}, "label_smoothing, which spreads over labels, has no meaning"),
    ({"train": {"task": "tag", "windows": "stream"}}, "train.task = 'tag' reads one at a time"),
    ({"train": {"class_weights": "balanced"}}, "class_weights is for a task head, and there is none"),
    ({"train": {"task": "tag"}, "model": {"labels": ["a", "a"]}}, "two names or more, each once"),
    ({"train": {"task": "tag"}, "model": {"labels": ["a"]}}, "two names or more, each once"),
    ({"train": {"task": "tag"}, "model": {"architecture": "encoder-decoder"}}, "is for an encoder or a decoder"),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED)
def test_a_recipe_without_meaning_is_refused(settings: Settings, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build_recipe(settings)


LEARNS: Settings = {
    "tokenizer": {"algorithm": "word", "vocab_size": 1000},
    "model": {"d_model": 48, "num_layers": 2, "num_heads": 4, "max_seq_len": 64},
    "train": {"steps": 150, "batch_size": 16, "learning_rate": 3e-3, "warmup_steps": 20, "evaluate_every": 0},
}


def learned(task: str, folder: Path, architecture: str = "encoder") -> tuple[Scores, Any]:
    recipe = task_recipe(task, folder, architecture, LEARNS, {"data": {"max_documents": 1500}})
    train_tiny(recipe, folder / "run")
    run = load_run(folder / "run")
    data = dataset_of_run(RunDirectory(folder / "run"), run.recipe, lambda event: None)
    return evaluate(run, data), run


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_the_sense_of_bank_is_learned(tmp_path: Path, architecture: str) -> None:
    scores, run = learned("classify", tmp_path, architecture)
    assert scores.chance is not None and scores.chance < 0.6
    assert scores.accuracy > 0.9
    assert scores.macro_f1 is not None and scores.macro_f1 > 0.9
    assert sum(map(sum, scores.confusion)) == scores.tokens == scores.documents
    made = generate(
        run, "He wanted the lost boat, so he ran down the long hill to the bank landing.", run.recipe.generate
    )
    assert isinstance(made, Classified)
    assert made.label == "river"
    assert sum(one.probability for one in made.labels) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_word_classes_are_learned(tmp_path: Path) -> None:
    scores, run = learned("tag", tmp_path)
    assert scores.chance is not None and scores.chance < 0.8
    assert scores.accuracy > 0.95
    made = generate(run, "Tom saw the boat.", run.recipe.generate)
    assert isinstance(made, Tagged)
    assert [one.word for one in made.words] == ["Tom", "saw", "the", "boat", "."]


@pytest.mark.slow
def test_answers_are_found(tmp_path: Path) -> None:
    scores, run = learned("span", tmp_path)
    assert scores.exact_match is not None and scores.exact_match > 0.9
    assert scores.span_f1 is not None and scores.span_f1 >= scores.exact_match
    made = generate(run, "Then Mia ran to the park.", replace(run.recipe.generate, question="Where to?"))
    assert isinstance(made, Answered)
    assert (made.answer, made.start) == ("park", 20)
