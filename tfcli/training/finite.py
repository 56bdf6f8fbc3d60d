"""Non-finite losses and gradients: the run ends with its last good checkpoint, or, if train.skip_nonfinite allows it,
goes on without that step."""

import math

import torch

from tfcli.errors import TfcliError
from tfcli.training.job import TrainingJob
from tfcli.training.meter import Meter


def asking_is_free(device: torch.device) -> bool:
    """Whether numbers can be looked at without waiting for the device; else they are looked at with the reports."""
    return device.type == "cpu"


def require_finite(job: TrainingJob, meter: Meter) -> None:
    """Asked before anything is reported, scored or saved, so that broken weights never replace good ones. A gradient
    that is not finite has spoilt the weights already, one step before the loss shows it.

    Raises:
        TfcliError: naming the first step that was not finite.
    """
    found = meter.first_not_finite()
    if found is not None:
        step, what, value = found
        raise _diverged(job, f"The {what} became {value} at step {step}")


def count_left_out(job: TrainingJob, loss: float, norm: float) -> None:
    """One more step that was left out.

    Raises:
        TfcliError: it is one more than train.skip_nonfinite allows.
    """
    allowed = job.recipe.train.skip_nonfinite
    if job.progress.skipped >= allowed:
        what, value = ("gradient norm", norm) if math.isfinite(loss) else ("loss", loss)
        before = "1 step was" if allowed == 1 else f"{allowed} steps were"
        raise _diverged(job, f"The {what} became {value} at step {job.progress.step}, and {before} left out before")
    job.progress.skipped += 1


def _diverged(job: TrainingJob, problem: str) -> TfcliError:
    rate = job.recipe.train.learning_rate
    return TfcliError(
        f"{problem} ({job.run.kept()})",
        f"lower train.learning_rate (now {rate:g}) in a new run, or from that checkpoint on: "
        f"`tfcli train --resume {job.run.path} --set train.learning_rate={min(rate / 10, 1e-3):g}`",
    )
