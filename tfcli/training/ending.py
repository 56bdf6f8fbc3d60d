"""When a training ends, and what is said of it."""

from tfcli.recipe.train import TrainSection
from tfcli.records.training import Reason, TrainingFinished
from tfcli.runs.checkpoint import Progress
from tfcli.runs.directory import RunDirectory


def reason_of(progress: Progress, section: TrainSection) -> Reason:
    """Why a finished run ended: at its last step, or before it, because no evaluation was better."""
    return "done" if progress.step >= section.steps else "early"


def reason_to_end(progress: Progress, section: TrainSection) -> Reason | None:
    """Why there is nothing left to train; None: there is."""
    if progress.step >= section.steps or 0 < section.patience <= progress.stale:
        return reason_of(progress, section)
    return None


def finished_event(run: RunDirectory, progress: Progress, reason: Reason) -> TrainingFinished:
    """What the last event of a training says."""
    return TrainingFinished(
        reason, progress.step, progress.tokens, progress.seconds, progress.best_loss, progress.best_step, str(run.path)
    )
