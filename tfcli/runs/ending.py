"""Early stopping and the end of a training: when it is over, and what is said of it."""

from tfcli.recipe.train import TrainSection
from tfcli.records.training import Reason, TrainingFinished
from tfcli.runs.checkpoint import Progress
from tfcli.runs.directory import RunDirectory


def reason_to_end(progress: Progress, section: TrainSection) -> Reason | None:
    """Why there is nothing left to train: it was the last step, or no evaluation was better for long. None: there is
    something."""
    if progress.step >= section.steps:
        return "done"
    return "early" if 0 < section.patience <= progress.stale else None


def over(progress: Progress, section: TrainSection) -> Reason | None:
    """Why a run that was finished is so still; None: it was not, or was given more to do since."""
    return reason_to_end(progress, section) if progress.finished else None


def finished_event(run: RunDirectory, progress: Progress, reason: Reason) -> TrainingFinished:
    """What the last event of a training says."""
    best = progress.best_loss if progress.whole_loss is None else progress.whole_loss
    return TrainingFinished(
        reason, progress.step, progress.tokens, progress.seconds, best, progress.best_step, str(run.path)
    )
