"""TensorBoard: event files in RUN/tensorboard, which ``tensorboard --logdir runs`` shows."""

import json
from collections.abc import Mapping

from tfcli.tracking.tracker import TrackedRun


class TensorBoardTracker:
    """A resumed run goes on with what it has, and what came after the checkpoint is taken back (purge_step)."""

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge_step = run.step + 1 if run.step else None
        self._writer = SummaryWriter(run.folder / "tensorboard", purge_step=purge_step)
        if not run.step:
            recipe = json.dumps(run.recipe, indent=2, ensure_ascii=False, default=str)
            self._writer.add_text("recipe", f"```json\n{recipe}\n```")

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Write one scalar a figure; on the disk within a report or two."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()
