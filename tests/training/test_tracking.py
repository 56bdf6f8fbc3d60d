"""Training watched by a service: what it is told, what it may not do, and the services that are installed here."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import SHRUNK, tfcli
from tests.support.runs import Events, resume_tiny, stop_after, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.files import write_json
from tfcli.pipeline.training import resume_run, train_recipe
from tfcli.records.runs import CheckpointSaved, Evaluated, StepsDone, TrainingStarted
from tfcli.training import tracking as module
from tfcli.training.tracking import Service, run_key, tracking

SERVICES: tuple[Service, ...] = ("tensorboard", "wandb")


class FakeTracker:
    """Keeps what it is told, and fails where it is asked to."""

    def __init__(self, fail_at: str = "") -> None:
        self.run: tuple[Path, int, Mapping[str, Any]] | None = None
        self.logged: list[tuple[int, Mapping[str, float]]] = []
        self.closed = 0
        self.fail_at = fail_at

    def opened(self, run: Path, step: int, recipe: Mapping[str, Any]) -> "FakeTracker":
        self.run = run, step, recipe
        self._fail("open")
        return self

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._fail("log")
        self.logged.append((step, figures))

    def close(self) -> None:
        self.closed += 1
        self._fail("close")

    def _fail(self, what: str) -> None:
        if self.fail_at == what:
            raise OSError(f"no network to {what}\nand much more")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTracker:
    tracker = FakeTracker()
    monkeypatch.setattr(module, "_OPENED", dict.fromkeys(SERVICES, tracker.opened))
    monkeypatch.setattr(module, "require_installed", lambda service: None)
    return tracker


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "decoder-1"
    folder.mkdir()
    write_json(folder / "config.json", {"run_id": "feed"})
    (folder / "recipe.toml").write_text("[train]\nsteps = 100\n")
    return folder


def events(run: Path, step: int = 0) -> list[object]:
    return [
        TrainingStarted(str(run), "decoder", 52, step, 100, 64, 1000, 100, "cpu", "float32"),
        StepsDone(10, 100, 640, 3.5, 1e-3, 0.5, 1000.0, 2.0, 3.0, padding=0.25),
        Evaluated(10, 500, 3.25, 0.5, True, 0.1),
        CheckpointSaved(10, "somewhere"),
    ]


def test_a_tracker_is_told_every_figure_and_the_report_every_event(fake: FakeTracker, run: Path):
    seen, notes = Events(), []
    with tracking("wandb", seen.append, notes.append) as report:
        for event in events(run):
            report(event)
        assert fake.closed == 0
    assert seen == events(run)
    assert fake.run == (run, 0, {"train": {"steps": 100}})
    assert [step for step, _ in fake.logged] == [10, 10]
    assert fake.logged[0][1] == {
        "train/loss": 3.5,
        "train/learning_rate": 1e-3,
        "train/grad_norm": 0.5,
        "train/tokens": 640.0,
        "train/tokens_per_second": 1000.0,
        "train/padding": 0.25,
    }
    assert fake.logged[1][1] == {"validation/loss": 3.25, "validation/accuracy": 0.5}
    assert (fake.closed, notes) == (1, [])


@pytest.mark.parametrize("fail_at", ["open", "log", "close"])
def test_a_tracker_that_fails_costs_a_note_and_nothing_else(fail_at: str, fake: FakeTracker, run: Path):
    fake.fail_at = fail_at
    seen, notes = Events(), []
    with tracking("wandb", seen.append, notes.append) as report:
        for event in [*events(run), *events(run)[1:]]:
            report(event)
    assert len(seen) == 7
    assert notes == [
        f"wandb failed and hears no more of this training, which goes on: no network to {fail_at} and much more"
    ]
    assert fake.closed == (fail_at == "close")


def test_what_stops_the_training_closes_the_tracker_and_is_passed_on(fake: FakeTracker, run: Path):
    def report_fails(event: object) -> None:
        if isinstance(event, StepsDone):
            raise BrokenPipeError

    def report_all() -> None:
        with tracking("wandb", report_fails, print) as report:
            for event in events(run):
                report(event)

    with pytest.raises(BrokenPipeError):
        report_all()
    assert fake.closed == 1
    assert fake.logged == []


def test_a_run_keeps_its_key_and_another_one_of_the_same_recipe_has_its_own(run: Path):
    first = run_key(run)
    assert run_key(run) == first
    (run / "recipe.toml").write_text("[train]\nsteps = 200\n")  # a resume may change it
    assert run_key(run) == first
    os.utime(run / "config.json", (1e9, 1e9))
    assert run_key(run) != first


def test_without_a_service_the_report_is_the_callers_own():
    with tracking(None, print, print) as report:
        assert report is print


@pytest.mark.parametrize("service", SERVICES)
def test_a_missing_package_is_said_before_any_work(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / service).mkdir()  # a folder of that name is no package
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").touch()
    begun = (
        ["train", "--arch", "decoder"],
        ["train", "--nproc", "2"],
        ["run", "quickstart"],
        ["train", "--resume", "run"],
    )
    for command in begun:
        result = tfcli(*command, *([] if "--resume" in command else SHRUNK), "--log", service)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            f"tfcli: --log {service} needs the package {service}, which is not installed; "
            f"install it with `pip install {service}`.\n"
        )
    assert {path.name for path in tmp_path.iterdir()} == {service, "run"}


def test_a_folder_is_not_taken_for_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "surely_not_installed").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="not installed"):
        module.require_installed("surely_not_installed")  # type: ignore[arg-type]


def test_a_watched_run_is_the_run_it_would_have_been(fake: FakeTracker, tmp_path: Path):
    plain, _ = train_tiny(tiny_recipe(), tmp_path / "plain")
    with tracking("wandb", lambda event: None, print) as report:
        watched = train_recipe(tiny_recipe(), tmp_path / "watched", report, lambda: False)
    assert (watched.step, watched.best_loss) == (plain.step, plain.best_loss)
    for file in ("recipe.toml", "model.safetensors", "config.json"):
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "watched" / file).read_bytes()
    resume_tiny(tmp_path / "watched")


def test_tensorboard_has_every_point_once_across_a_resume(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    with tracking("tensorboard", lambda event: None, pytest.fail) as report:
        train_recipe(tiny_recipe(), run, report, stop_after(7))
    with tracking("tensorboard", lambda event: None, pytest.fail) as report:
        # As after a kill: the checkpoint is older than what TensorBoard has heard.
        report(TrainingStarted(str(run), "decoder", 52, 4, 12, 64, 1000, 100, "cpu", "float32"))
        report(StepsDone(6, 12, 640, 9.5, 1e-3, 0.5, 1000.0, 2.0, 3.0))
    read = EventAccumulator(str(run / "tensorboard"))
    read.Reload()
    losses = [(point.step, point.value) for point in read.Scalars("train/loss")]
    assert [step for step, _ in losses] == [2, 4, 6]
    assert losses[-1][1] == 9.5
    assert "train/loss" in read.Tags()["scalars"]
    assert "recipe/text_summary" in read.Tags()["tensors"]


def test_wandb_says_nothing_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    with tracking("wandb", lambda event: None, pytest.fail) as report:
        train_recipe(tiny_recipe(), run, report, stop_after(7))
    with tracking("wandb", lambda event: None, pytest.fail) as report:
        assert resume_run(run, report, lambda: False).step == 12
    assert capfd.readouterr().out == ""
