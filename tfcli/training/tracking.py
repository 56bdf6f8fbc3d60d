"""Experiment tracking: a training's events are passed on and told to a tracker, whose failures cost no training."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tfcli.errors import UsageError, first_lines
from tfcli.files import digest, read_json
from tfcli.recipe.loading import read_toml
from tfcli.records.runs import Evaluated, StepsDone, TrainingStarted


class Tracker(NamedTuple):
    """A service that is open for one run: to keep figures of a step, and to bring all to where they belong."""

    log: Callable[[int, Mapping[str, float]], None]
    close: Callable[[], None]


def figures_of(event: StepsDone | Evaluated) -> dict[str, float]:
    """The numbers of an event under the names that all trackers show."""
    if isinstance(event, Evaluated):
        if event.of_step is not None:  # a figure of another step
            return {}
        place = "validation_sample" if event.part == "sample" else "validation"
        return {f"{place}/loss": event.loss, f"{place}/accuracy": event.accuracy}
    names = ("objective", "loss", "learning_rate", "grad_norm", "tokens", "tokens_per_second", "padding")
    figures = {f"train/{name}": getattr(event, name) for name in names}
    return {name: float(figure) for name, figure in figures.items() if figure is not None}


Service = Literal["tensorboard", "wandb"]
Report = Callable[[Any], None]


@contextmanager
def tracking(service: Service | None, report: Report, note: Callable[[str], None]) -> Iterator[Report]:
    """A `report` that tells the service, too; `report` itself where there is none. `note` is told, once, why the
    service hears no more: it is given up at its first failure. One that is not installed is refused before any work."""
    if service is None:
        yield report
        return
    require_installed(service)
    tracker: Tracker | None = None

    def tell(event: Any) -> None:
        nonlocal tracker
        if event is not None:
            report(event)
        try:
            if isinstance(event, TrainingStarted):
                run = Path(event.run)
                tracker = _OPENED[service](run, event.step, read_toml(run / "recipe.toml"))
            elif isinstance(event, StepsDone | Evaluated) and tracker is not None:
                tracker.log(event.step, figures_of(event))
            elif event is None and tracker is not None:
                tracker.close()
        except Exception as error:  # networks, disks, other people's code: none of it may cost a training
            tracker = None
            note(f"{service} failed and hears no more of this training, which goes on: {first_lines(error)}")

    try:
        yield tell
    finally:
        tell(None)


def require_installed(service: Service) -> None:
    """Refuse a service whose package is missing, with the command that installs it."""
    spec = find_spec(service)
    if spec is None or spec.origin is None:  # the latter is a folder of that name, not a package
        problem = f"--log {service} needs the package {service}, which is not installed"
        raise UsageError(problem, f"install it with `pip install {service}`")


def run_key(run: Path) -> str:
    """The same for a run at every resume: of its id, and of when config.json, which no run changes, was written."""
    config = run / "config.json"
    return digest(read_json(config)["run_id"], config.stat().st_mtime_ns)


def _tensorboard(run: Path, step: int, recipe: Mapping[str, Any]) -> Tracker:
    """A resumed run goes on with what it has, and what came after the checkpoint is taken back (purge_step)."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(run / "tensorboard", purge_step=step + 1 if step else None)
    if not step:
        writer.add_text("recipe", f"```json\n{json.dumps(recipe, indent=2, ensure_ascii=False, default=str)}\n```")

    def log(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(log, writer.close)


def _wandb(run: Path, step: int, recipe: Mapping[str, Any]) -> Tracker:
    """A resumed run goes on under its own key; steps that the service has already are passed over by it."""
    import wandb

    opened = wandb.init(
        project="tfcli",
        name=run.resolve().name,
        id=run_key(run),
        dir=str(run),
        config=dict(recipe),
        resume="allow",
        # None is what WANDB_MODE says; without it, online for who has logged in, and never a question.
        mode=None if os.environ.get("WANDB_MODE") or wandb.login(prompt=False, verify=False) else "offline",
        # console="off": what the terminal shows stays the program's own; silent: so do stdout and stderr.
        settings=wandb.Settings(silent=True, console="off"),
    )
    return Tracker(lambda step, figures: opened.log(dict(figures), step=step), opened.finish)


_OPENED = {"tensorboard": _tensorboard, "wandb": _wandb}
"""Open the service for the run in a folder. The step is 0 for a new one, else where a resumed one goes on behind."""
