"""Training on micro-batches of a number of tokens."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.runs import (
    ARCHITECTURES,
    Settings,
    one_thread,
    resume_tiny,
    same,
    stop_after,
    tiny_recipe,
    train_tiny,
    weights,
)
from tfcli.data.loader import PairBatches, build_batches
from tfcli.errors import UsageError
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.measure import total_loss
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import TrainingStarted
from tfcli.runs.load import load_run
from tfcli.training.view import event_line

BUSY = {"model": {"dropout": 0.1}, "train": {"batch_tokens": 96, "grad_accumulation": 2, "windows": "documents"}}
PAIRS = {"train": {"windows": None}}
CPU = torch.device("cpu")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_interrupted_run_becomes_the_unbroken_one(tmp_path: Path, architecture: str) -> None:
    settings = (BUSY, PAIRS) if architecture == "encoder-decoder" else (BUSY,)
    recipe = tiny_recipe(architecture, *settings)
    with one_thread():
        _, events = train_tiny(recipe, tmp_path / "unbroken")
        train_tiny(recipe, tmp_path / "run", stop=stop_after(5))
        torch.manual_seed(987)
        finished, _ = resume_tiny(tmp_path / "run")
    assert same(*(weights(tmp_path / run / "model.safetensors") for run in ("run", "unbroken")))
    # 12 steps of 2 micro-batches of at most 96 places each, nearly full.
    assert 12 * 2 * 60 < finished.tokens <= 12 * 2 * 96
    (started,) = events.of(TrainingStarted)
    assert finished.tokens == pytest.approx(12 * started.tokens_per_step, rel=0.2)


def test_the_score_does_not_depend_on_the_budget(tmp_path: Path) -> None:
    by_size = tiny_recipe("encoder-decoder")
    train_tiny(by_size, tmp_path / "run")
    run = load_run(tmp_path / "run")
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    by_tokens = tiny_recipe("encoder-decoder", {"train": {"batch_tokens": 20}})
    one, other = (build_batches(recipe, data, "validation", run.config.roles) for recipe in (by_size, by_tokens))
    assert isinstance(one, PairBatches) and isinstance(other, PairBatches)
    # A pair longer than 20 places is scored all the same: only training refuses it.
    sizes = data.pairs("validation").source.lengths + data.pairs("validation").target.lengths - 1
    assert sizes.max() > 20
    assert sorted(one.order.tolist()) == sorted(other.order.tolist())
    ours, theirs = (total_loss(run.model, batches.whole(), CPU) for batches in (one, other))
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-6)
    assert (ours.tokens, ours.correct) == (theirs.tokens, theirs.correct)
    assert evaluate(run, data).loss == pytest.approx(ours.loss, rel=1e-5)


def test_a_budget_below_the_longest_pair_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    recipe = tiny_recipe("encoder-decoder", {"train": {"batch_tokens": 12}})
    with pytest.raises(UsageError, match=r"batch_tokens = 12 cannot hold the longest example of \d+ tokens"):
        train_tiny(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def unnamed(architecture: str, *settings: Settings) -> Recipe:
    """A recipe that says nothing of its batches."""
    return tiny_recipe(architecture, {"train": {"batch_size": None, "steps": 4}}, *settings)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_a_word_batches_have_the_tokens_of_32_mean_sequences(tmp_path: Path, architecture: str) -> None:
    """Decided once the text is there, recorded and said; a resumed run has the same."""
    recipe = unnamed(architecture, {} if architecture == "encoder-decoder" else {"train": {"windows": "documents"}})
    with one_thread():
        _, events = train_tiny(recipe, tmp_path / "unbroken")
        train_tiny(recipe, tmp_path / "run", stop=stop_after(2))
        finished, _ = train_tiny(recipe, tmp_path / "run")
    assert finished.step == 4
    assert same(*(weights(tmp_path / run / "model.safetensors") for run in ("run", "unbroken")))
    recorded = load_run(tmp_path / "run").recipe.train
    (started,) = events.of(TrainingStarted)
    assert (recorded.batch_size, recorded.batch_tokens) == (None, started.batch_tokens)
    assert f"micro-batches of up to {started.batch_tokens:,}" in event_line(started)
    run = load_run(tmp_path / "run")
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    batches = build_batches(run.recipe, data, "train", run.config.roles)
    epoch = [batch.tokens for batch in islice(batches.training(), batches.batches_per_epoch)]
    rows = sum(len(batch.labels) for batch in islice(batches.training(), batches.batches_per_epoch))
    assert recorded.batch_tokens == pytest.approx(32 * sum(epoch) / rows, rel=0.01)
    assert max(epoch) <= recorded.batch_tokens


def test_no_budget_is_less_than_the_longest_pair(tmp_path: Path) -> None:
    """One of 300 words a side has 301 tokens on each; 32 of mean length have about 300 in all."""
    lines = [" ".join("ab" * 150) + "\t" + " ".join("xy" * 150), *["a b c\tx y z"] * 300]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget", *lines]) + "\n")
    text: Settings = {"data": {"source": str(tmp_path / "pairs.tsv"), "split": "tail", "max_documents": None}}
    longest: Settings = {"train": {"steps": 1}, "model": {"max_seq_len": 400}}
    train_tiny(unnamed("encoder-decoder", text, longest), tmp_path / "run")
    assert load_run(tmp_path / "run").recipe.train.batch_tokens == 602


def test_windows_of_a_stream_are_counted_by_rows(tmp_path: Path) -> None:
    train_tiny(unnamed("decoder", {"train": {"windows": "stream", "steps": 1}}), tmp_path / "run")
    train = load_run(tmp_path / "run").recipe.train
    assert (train.batch_size, train.batch_tokens) == (32, None)


@pytest.mark.parametrize("named", [{"batch_size": 4}, {"batch_size": 4, "windows": "documents"}], ids=str)
def test_rows_that_are_named_are_rows(tmp_path: Path, named: dict[str, object]) -> None:
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 1, **named}}), tmp_path / "run")
    train = load_run(tmp_path / "run").recipe.train
    assert (train.batch_size, train.batch_tokens) == (4, None)


@pytest.mark.parametrize(
    ("layers", "rows", "tokens"),
    [
        (({"batch_tokens": 4096}, {"batch_size": 8}), 8, None),  # as with --set over a recipe, or over a run's own
        (({"batch_tokens": 4096, "batch_size": 8},), 8, 4096),  # as runs of before have recorded it
        (({"batch_size": 8}, {"batch_tokens": 4096}), 8, 4096),
        (({"batch_tokens": 4096}, {"steps": 3}), None, 4096),
        ((), None, None),
    ],
    ids=str,
)
def test_the_later_word_counts(layers: tuple[dict[str, int], ...], rows: int | None, tokens: int | None) -> None:
    train = build_recipe(*({"train": layer} for layer in layers)).train
    assert (train.batch_size, train.batch_tokens) == (rows, tokens)


def test_a_token_weighs_about_the_same_in_every_step(tmp_path: Path) -> None:
    """Documents of 10 to 300 tokens: by rows, a token of a step of short ones weighs many times one of long ones."""
    texts = [" ".join("word" for _ in range(length)) for length in range(10, 300)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    settings: Settings = {
        "tokenizer": {"algorithm": "word"},
        "data": {"source": str(tmp_path / "texts.jsonl"), "split": "tail", "max_documents": None},
        "model": {"max_seq_len": 512},
    }
    ratios = []
    for number, named in enumerate(({"batch_size": 8}, {})):
        recipe = unnamed("decoder", settings, {"train": {"steps": 1, **named}})
        train_tiny(recipe, tmp_path / str(number))
        run = load_run(tmp_path / str(number))
        data = dataset_of_run(run.directory, run.recipe, lambda event: None)
        batches = build_batches(run.recipe, data, "train", run.config.roles)
        targets = [batch.target_tokens for batch in islice(batches.training(), batches.batches_per_epoch)]
        ratios.append(max(targets) / min(targets))
    assert ratios[0] > 8
    assert ratios[1] < 2


def test_what_would_be_trained_says_so(tmp_path: Path) -> None:
    said = tfcli("train", "--dry-run", "--arch", "encoder-decoder")
    assert "as many tokens as 32 pairs of mean length" in " ".join(said.stdout.split())
    assert "8 sequences" in tfcli("train", "--dry-run", "--set", "train.batch_size=8").stdout
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": "a b c " * n}) + "\n" for n in range(1, 40)))
    text, folder = str(tmp_path / "texts.jsonl"), str(tmp_path / "prepared")
    assert tfcli("tokenize", "train", text, "--algorithm", "word", "--out", tmp_path / "t.json").exit_code == 0
    assert tfcli("prepare", text, "--tokenizer", tmp_path / "t.json", "--out", folder).exit_code == 0
    said = tfcli("train", "--dry-run", "--data", folder)
    assert re.search(r"a micro-batch +[\d,]+ tokens, padding included", said.stdout), said.output
