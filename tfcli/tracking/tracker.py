"""What every tracker does, and what it is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tfcli.records.training import Evaluated, StepsDone

PROJECT = "tfcli"
"""Under which project a service keeps the runs."""


class Tracker(Protocol):
    """A service that has been opened for one run. Any method may fail in any way."""

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Keep some figures of a step."""
        ...

    def close(self) -> None:
        """Bring everything to where it belongs."""
        ...


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker knows it: `step` is 0 for a new one, else where a resumed one goes on behind.

    `key` is the same for a run at every resume, and another one for any other run.
    """

    folder: Path
    step: int
    key: str
    recipe: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.resolve().name


def figures_of(event: StepsDone | Evaluated) -> dict[str, float]:
    """The numbers of an event under the names that all trackers show."""
    if isinstance(event, Evaluated):
        if event.of_step is not None:  # a figure of another step
            return {}
        place = "validation_sample" if event.part == "sample" else "validation"
        return {f"{place}/loss": event.loss, f"{place}/accuracy": event.accuracy}
    objective = {} if event.objective is None else {"train/objective": event.objective}
    return objective | {
        "train/loss": event.loss,
        "train/learning_rate": event.learning_rate,
        "train/grad_norm": event.grad_norm,
        "train/tokens": float(event.tokens),
        "train/tokens_per_second": event.tokens_per_second,
        "train/padding": event.padding,
    }
