"""What a resume may change of a run, and what is written down of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipeline.corpora import contents
from tests.support.left import require_equal, what_is_left
from tests.support.runs import Events, Settings, never, one_thread, stop_after, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.pipeline.training import _decided_again, resume_run
from tfcli.recipe.loading import CHANGEABLE, build_recipe, load_recorded
from tfcli.recipe.recipe import known_keys
from tfcli.records.runs import SettingChanged, StepsDone, TrainingFinished, TrainingStarted
from tfcli.runs.directory import RunDirectory
from tfcli.runs.overview import summarize
from tfcli.training.schedule import learning_rate
from tfcli.training.view import event_line


def resumed(run: Path, **train: object) -> tuple[TrainingFinished, Events]:
    events = Events()
    return resume_run(run, events.append, never, {"train": train}), events


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    settings: Settings = {"train": {"log_every": 1}}
    train_tiny(tiny_recipe("decoder", settings), tmp_path / "run", stop=stop_after(5))
    return tmp_path / "run"


def changed_lines(run: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == "changed"]


def test_a_change_acts_from_there_on_and_is_written_down(interrupted: Path):
    finished, events = resumed(interrupted, steps=8, learning_rate=0.002, evaluate_every=3)
    assert (finished.reason, finished.step) == ("done", 8)
    recipe = load_recorded(interrupted / "recipe.toml")
    assert (recipe.train.steps, recipe.train.learning_rate, recipe.train.evaluate_every) == (8, 0.002, 3)
    before = build_recipe({"train": {"steps": 12, "learning_rate": 0.01, "warmup_steps": 2}}).train
    rates = {"rate_before": learning_rate(5, before), "rate_after": learning_rate(6, recipe.train)}
    assert changed_lines(interrupted) == [
        {"event": "changed", "step": 5, "key": "train.steps", "from": 12, "to": 8},
        {"event": "changed", "step": 5, "key": "train.learning_rate", "from": 0.01, "to": 0.002, **rates},
        {"event": "changed", "step": 5, "key": "train.evaluate_every", "from": 4, "to": 3},
    ]
    assert [event.key for event in events.of(SettingChanged)] == [line["key"] for line in changed_lines(interrupted)]
    rates = [event.learning_rate for event in events.of(StepsDone)]
    assert rates == [learning_rate(step, recipe.train) for step in (6, 7, 8)]


def test_what_stays_as_it_is_is_no_change(interrupted: Path):
    before = (interrupted / "recipe.toml").read_bytes()
    resumed(interrupted, steps=12)
    assert changed_lines(interrupted) == []
    assert (interrupted / "recipe.toml").read_bytes() == before


def test_a_run_whose_name_would_be_none_today_goes_on(interrupted: Path):
    """With settings and without: its name is a label, and what shapes only what is shown may be edited."""
    recipe = interrupted / "recipe.toml"
    written = recipe.read_text()
    assert 'name = "decoder"' in written
    recipe.write_text(written.replace('name = "decoder"', 'name = "my ../../ run"'))
    assert resumed(interrupted, steps=8)[0].reason == "done"
    assert load_recorded(recipe).name == "my-..-..-run"


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "wsd"])
def test_a_finished_run_goes_on_at_its_last_rate(tmp_path: Path, schedule: str):
    """Were the cosine stretched from 12 steps to 15, the rate would rise from 0.001 to 0.002 in one step."""
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", {"train": {"schedule": schedule, "log_every": 1}}), run)
    last = learning_rate(12, load_recorded(run / "recipe.toml").train)
    finished, events = resumed(run, steps=15)
    assert (finished.reason, finished.step) == ("done", 15)
    assert [event.learning_rate for event in events.of(StepsDone)] == [last] * 3
    _, held = events.of(SettingChanged)
    assert (held.key, held.to, held.rate_before, held.rate_after) == ("train.schedule_steps", 12, last, last)
    assert f"the learning rate stays at its last, {last:.2e}" in event_line(held)
    assert [*RunDirectory(run).checkpoints()] == ([4, 8, 15] if schedule == "wsd" else [15])[-2:]
    again, events = resumed(run, steps=18)
    assert again.step == 18
    assert {event.learning_rate for event in events.of(StepsDone)} == {last}
    assert [line["to"] for line in changed_lines(run)] == [15, 12, 18]
    assert load_recorded(run / "recipe.toml").train.schedule_steps == 12


def test_more_steps_at_a_rate_of_0_are_refused(tmp_path: Path) -> None:
    """A linear schedule to 0, as BERT has it: steps after its end would change no weight."""
    run = tmp_path / "run"
    settings = {"train": {"schedule": "linear", "final_learning_rate": 0.0, "log_every": 1}}
    train_tiny(tiny_recipe("decoder", settings), run)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(
        UsageError, match="learning rate of 0 after step 12, so more steps would learn nothing"
    ) as error:
        resumed(run, steps=15)
    assert error.value.remedy == "to stretch the schedule over all steps: --set train.schedule=linear"
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    _, events = resumed(run, steps=15, schedule="linear")
    assert events.of(StepsDone)[0].learning_rate > 0


def test_a_schedule_is_stretched_when_it_is_named(tmp_path: Path):
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", {"train": {"log_every": 1}}), run)
    before = load_recorded(run / "recipe.toml").train
    _, events = resumed(run, steps=15, schedule="cosine")
    after = replace(before, steps=15)
    assert [event.learning_rate for event in events.of(StepsDone)] == [learning_rate(s, after) for s in (13, 14, 15)]
    [change] = events.of(SettingChanged)
    assert (change.rate_before, change.rate_after) == (learning_rate(12, before), learning_rate(13, after))
    assert "train.steps: 12 → 15, learning rate 1.00e-03 → " in event_line(change)


def test_an_extended_run_that_is_killed_at_once_is_not_finished(tmp_path: Path):
    """Its last checkpoint is that of the end before: neither a resume nor a list may call it finished, and it ends as
    the one that nobody killed."""

    class Killed(BaseException):
        pass

    def kill() -> bool:
        raise Killed

    with one_thread():
        for name in ("run", "unbroken"):
            train_tiny(tiny_recipe(), tmp_path / name)
        resumed(tmp_path / "unbroken", steps=15)
        with pytest.raises(Killed):
            resume_run(tmp_path / "run", lambda event: None, kill, {"train": {"steps": 15}})
        assert summarize(RunDirectory(tmp_path / "run")).state == "interrupted"
        events = Events()
        finished = resume_run(tmp_path / "run", events.append, never)
    assert (finished.reason, finished.step) == ("done", 15)
    require_equal(what_is_left(tmp_path / "run"), what_is_left(tmp_path / "unbroken"))


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (
            {"batch_size": 8},
            "train.batch_size is 4 in this run, and with 8 it would be another one; begin a new one with",
        ),
        ({"seed": 1}, "train.seed is 0 in this run"),
        (
            {"ema_decay": 0.9},
            r"train.patience, train.schedule, train.schedule_steps; how fast: train.learning_rate",
        ),
        ({"steps": 3}, "train.steps = 3 is less than the 5 steps that are done"),
        ({"steps": 5}, "finished at step 5, and there is nothing left to train"),
        ({"steps": 0}, "train.steps = 0 is out of range"),
        ({"stepps": 9}, "did you mean train.steps"),
        ({"average_checkpoints": 2}, "is more than train.keep_checkpoints = 1"),
    ],
    ids=str,
)
def test_another_change_is_refused_by_name_and_nothing_happens(interrupted: Path, train: dict[str, object], words: str):
    before = contents(interrupted)
    with pytest.raises(UsageError, match=words):
        resumed(interrupted, **train)
    assert contents(interrupted) == before


def test_a_change_of_a_finished_run_that_does_nothing_is_refused(tmp_path: Path):
    train_tiny(tiny_recipe(), tmp_path / "run")
    with pytest.raises(UsageError, match=r"at step 12, and there is nothing left to train; raise train\.steps"):
        resumed(tmp_path / "run", log_every=1)


def test_what_the_machine_decides_is_decided_anew_only_when_it_is_asked_for(interrupted: Path):
    resumed(interrupted, device="auto", threads=0)
    train = load_recorded(interrupted / "recipe.toml").train
    assert train.device in ("cpu", "cuda", "mps")
    assert train.threads >= 1


def test_every_key_that_may_change_is_one():
    changeable = [key for keys in CHANGEABLE.values() for key in keys]
    assert set(changeable) <= set(known_keys())
    assert len(set(changeable)) == len(changeable)


@pytest.mark.parametrize(
    ("cut", "lost", "words"), [(9, 1, "a line that was"), (None, 6, "6 lines that were")], ids=["cut", "emptied"]
)
def test_lines_that_are_lost_are_told_once(interrupted: Path, cut: int | None, lost: int, words: str):
    """Five reports and a score were there; the last one is cut short, as by a broken disk, or all are gone."""
    metrics = interrupted / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-cut] if cut else b"")
    for expected in (lost, 0):
        events = Events()
        resume_run(interrupted, events.append, stop_after(1))
        [begun] = events.of(TrainingStarted)
        assert begun.lost_lines == expected
        assert (f"metrics.jsonl has lost {words} there" in event_line(begun)) == (expected > 0)


def test_on_another_device_the_old_one_s_paths_are_chosen_again(monkeypatch: pytest.MonkeyPatch):
    """A CPU's "rows" is no wish for a GPU; what is asked for now is."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: True)
    recorded = build_recipe(
        {"train": {"device": "cpu", "precision": "bfloat16", "attention": "rows", "compile": "off"}}
    )
    moved = replace(recorded, train=replace(recorded.train, device="cuda"))
    assert _decided_again(moved, recorded, {"train": {"device": "cuda"}}).train.attention == "fused"
    asked = {"train": {"device": "cuda", "attention": "rows"}}
    assert _decided_again(moved, recorded, asked).train.attention == "rows"
