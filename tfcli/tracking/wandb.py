"""Weights & Biases. Without an API key it keeps the run in RUN/wandb, to be sent by ``wandb sync`` later."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from tfcli.tracking.tracker import PROJECT, TrackedRun


class WandbTracker:
    """A resumed run goes on under its own id; steps that the service has already are passed over by it."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        # console="off": what the terminal shows stays the program's own; silent: so do stdout and stderr.
        settings: Any = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            project=PROJECT,
            name=run.name,
            id=run.key,
            dir=str(run.folder),
            config=dict(run.recipe),
            resume="allow",
            mode=_mode(wandb),
            settings=settings,
        )

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Hand the figures over; another process sends them."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        """Wait until all is sent, or stored."""
        self._run.finish()


def _mode(wandb: Any) -> Literal["offline"] | None:
    """What WANDB_MODE says; without it, online for who has logged in, and never a question."""
    if os.environ.get("WANDB_MODE") or wandb.login(prompt=False, verify=False):
        return None
    return "offline"
