"""Experiment tracking: a training's events are passed on and told to a tracker, whose failures cost no training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from tfcli.errors import UsageError, first_lines
from tfcli.files import digest, read_json
from tfcli.recipe.loading import read_toml
from tfcli.records.training import Evaluated, StepsDone, TrainingStarted
from tfcli.tracking.tracker import TrackedRun, Tracker, figures_of

Service = Literal["tensorboard", "trackio", "wandb"]
Report = Callable[[Any], None]


@contextmanager
def tracking(service: Service | None, report: Report, note: Callable[[str], None]) -> Iterator[Report]:
    """A `report` that tells the service, too; `report` itself where there is none.

    Args:
        note: is told, once, why the service hears no more.

    Raises:
        UsageError: before any work, where the service's package is not installed.
    """
    if service is None:
        yield report
        return
    require_installed(service)
    tracked = _Tracked(service, report, note)
    try:
        yield tracked
    finally:
        tracked.close()


def require_installed(service: Service) -> None:
    """Refuse a service whose package is missing.

    Raises:
        UsageError: with the command that installs it.
    """
    assert service in get_args(Service)
    spec = find_spec(service)
    if spec is None or spec.origin is None:  # the latter is a folder of that name, not a package
        raise UsageError(
            f"--log {service} needs the package {service}, which is not installed",
            f"install it with `pip install {service}`",
        )


class _Tracked:
    """Opens the tracker when the run is known, and gives it up at the first failure."""

    def __init__(self, service: Service, report: Report, note: Callable[[str], None]) -> None:
        self._service, self._report, self._note = service, report, note
        self._tracker: Tracker | None = None
        self._given_up = False

    def __call__(self, event: Any) -> None:
        self._report(event)
        if isinstance(event, TrainingStarted):
            self._attempt(lambda: self._open(event))
        elif isinstance(event, StepsDone | Evaluated) and self._tracker is not None:
            tracker = self._tracker
            self._attempt(lambda: tracker.log(event.step, figures_of(event)))

    def close(self) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            self._attempt(tracker.close)

    def _open(self, event: TrainingStarted) -> None:
        self._tracker = _opened(self._service, _tracked_run(Path(event.run), event.step))

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._given_up:
            return
        try:
            action()
        except Exception as error:  # networks, disks, other people's code: none of it may cost a training
            self._given_up, self._tracker = True, None
            self._note(
                f"{self._service} failed and hears no more of this training, which goes on: {first_lines(error)}"
            )


def _opened(service: Service, run: TrackedRun) -> Tracker:
    """Its package is loaded here, and not before."""
    if service == "tensorboard":
        from tfcli.tracking.tensorboard import TensorBoardTracker

        return TensorBoardTracker(run)
    if service == "trackio":
        from tfcli.tracking.trackio import TrackioTracker

        return TrackioTracker(run)
    from tfcli.tracking.wandb import WandbTracker

    return WandbTracker(run)


def _tracked_run(folder: Path, step: int) -> TrackedRun:
    """The run in `folder`. Its key is made of config.json, which no run changes: its id, and when it was written, for
    the same recipe may be trained twice."""
    config = folder / "config.json"
    key = digest(read_json(config)["run_id"], config.stat().st_mtime_ns)
    recipe = read_toml(folder / "recipe.toml")
    return TrackedRun(folder, step, key, recipe)
