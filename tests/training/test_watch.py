"""Watching a training: what is measured at its evaluations, and that it moves nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cli.commands import tfcli
from tests.support.left import Left, require_equal, what_is_left
from tests.support.runs import ARCHITECTURES, Events, Settings, resume_tiny, stop_after, tiny_recipe, train_tiny
from tfcli.inspection.heads.statistics import copies, previous, repeated_sequences, watched
from tfcli.records.runs import Evaluated
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_history

WATCH: Settings = {"train": {"watch": "heads"}}
MANY: Settings = {"train": {"keep_checkpoints": 3}, "model": {"dropout": 0.1}}


def unwatched(run: Path) -> Left:
    """What a run has left, less what was watched and what says that it was."""
    left = what_is_left(run)
    left["metrics"] = [{k: v for k, v in line.items() if k != "watched"} for line in left["metrics"]]
    for name, state in left.items():
        if name.startswith("state"):
            state["belongs_to"]["recipe"]["train"].pop("watch", None)
            state["belongs_to"].pop("run_id")
    return left


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_watched_training_is_the_same_to_the_bit(architecture: str, tmp_path: Path):
    """With dropout, whose random numbers a careless watcher would use up."""
    train_tiny(tiny_recipe(architecture, MANY), tmp_path / "plain")
    train_tiny(tiny_recipe(architecture, MANY, WATCH), tmp_path / "watched")
    require_equal(unwatched(tmp_path / "watched"), unwatched(tmp_path / "plain"))
    assert "watched" not in (tmp_path / "plain/metrics.jsonl").read_text()
    assert "watch" not in (tmp_path / "plain/recipe.toml").read_text()


def test_a_resumed_one_has_measured_what_the_unbroken_one_has(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", MANY, WATCH), tmp_path / "unbroken")
    train_tiny(tiny_recipe("decoder", MANY, WATCH), tmp_path / "broken", stop=stop_after(6))
    resume_tiny(tmp_path / "broken")
    require_equal(what_is_left(tmp_path / "broken"), what_is_left(tmp_path / "unbroken"))


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("decoder", ["induction", "previous", "in_context"]),
        ("encoder", ["induction", "previous"]),
        ("encoder-decoder", ["induction", "previous"]),
    ],
)
def test_what_is_stored_is_what_each_checkpoint_gives(architecture: str, names: list[str], tmp_path: Path):
    _, events = train_tiny(tiny_recipe(architecture, MANY, WATCH), tmp_path / "run")
    points = {point.step: point.watched for point in read_history(tmp_path / "run/metrics.jsonl").validation}
    assert [*points] == [4, 8, 12]
    for step, found in points.items():
        run = load_run(tmp_path / "run", str(step))
        assert [*found] == names
        scores = [one["induction"].max() for one in copies(run).scores.values()]
        assert found["induction"] == pytest.approx(max(scores), rel=1e-6)
        assert found == pytest.approx(watched(run), rel=1e-6)
    assert isinstance(events, Events) and events.of(Evaluated)[0].watched == points[4]


def test_the_gain_in_context_by_the_losses_of_each_token(tmp_path: Path):
    """Of n tokens read twice behind <s>: those of the first copy against those of the second but its first."""
    train_tiny(tiny_recipe("decoder"), tmp_path / "run")
    run = load_run(tmp_path / "run")
    period, _, texts = repeated_sequences(run)
    first: list[Tensor] = []
    second: list[Tensor] = []
    for text in texts:
        assert text.decoder is not None
        with torch.inference_mode():
            logs = run.model(*text.tensors(run.device))[0].log_softmax(-1)
        nats = [-logs[at - 1, text.decoder[at]] for at in range(1, 2 * period + 1)]
        first, second = first + nats[:period], second + nats[period + 1 :]
    expected = float(torch.stack(first).mean() - torch.stack(second).mean())
    assert watched(run)["in_context"] == pytest.approx(expected, abs=1e-5)


def test_the_previous_token_by_hand():
    """Two tokens read twice behind <s>: queries 2, 3 and 4 look at 1, 2 and 3."""
    weights = np.zeros((1, 5, 5))
    weights[0, 2, 1], weights[0, 3, 2], weights[0, 4, 3] = 0.2, 0.4, 0.9
    assert previous(weights, start=1, period=2) == pytest.approx([0.5])


def test_a_context_that_is_too_short_has_nothing_to_watch(tmp_path: Path):
    short: Settings = {"model": {"max_seq_len": 8}, "train": {"steps": 4, "evaluate_every": 4}}
    train_tiny(tiny_recipe("decoder", WATCH, short), tmp_path / "run")
    assert [point.watched for point in read_history(tmp_path / "run/metrics.jsonl").validation] == [{}]


def test_its_curves_stand_under_the_loss(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", WATCH), tmp_path / "run")
    for command in (("runs", "show"), ("inspect", "training")):
        shown = tfcli(*command, tmp_path / "run")
        assert shown.exit_code == 0, shown.stderr
        assert "━ induction score" in shown.stdout and "━ gain in context, nats" in shown.stdout
    told = json.loads(tfcli("inspect", "training", tmp_path / "run", "--json").stdout)
    assert [[*one] for one in told["watched"]] == [["induction", "previous", "in_context"]] * 3
