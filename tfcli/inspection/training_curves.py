"""What a run's metrics say of its training."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.records.arrays import frozen
from tfcli.records.training_curves import TrainingCurves
from tfcli.runs.directory import RunDirectory
from tfcli.runs.history import read_history


def training_curves(run: RunDirectory) -> TrainingCurves:
    """The figures that training recorded.

    Raises:
        UsageError: there are none: the run was imported, or interrupted before its first report.
    """
    history = read_history(run.metrics)
    points = history.training
    if not points and run.metrics.is_file():
        raise UsageError(
            f"{run.metrics} holds no report of training: it was interrupted before the first, or the file is damaged",
            "restore the file, or name another run",
        )
    if not points:
        raise UsageError(
            f"The run {run.path} has recorded no step of training", "name a run that tfcli has trained here"
        )
    groups = tuple(dict.fromkeys(name for point in points for name in point.weight_norms))
    ratios = _numbers([point.update_ratios.get(name) for point in points] for name in groups)
    return TrainingCurves(
        run=str(run.path),
        groups=groups,
        steps=frozen([point.step for point in points], np.int64),
        losses=_numbers(point.loss for point in points),
        learning_rates=_numbers(point.learning_rate for point in points),
        grad_norms=_numbers(point.grad_norm for point in points),
        weight_norms=_numbers([point.weight_norms.get(name) for point in points] for name in groups),
        update_ratios=ratios,
        typical_ratios=_numbers(_typical(row) for row in ratios),
        objectives=_numbers(point.objective for point in points),
        evaluated_steps=frozen([point.step for point in history.validation], np.int64),
        evaluated_losses=_numbers(point.loss for point in history.validation),
    )


def _numbers(values: Iterable[object]) -> NDArray[np.float64]:
    """As numbers, None as NaN."""
    return frozen(list(values), np.float64)


def _typical(ratios: NDArray[np.float64]) -> float:
    """The median of those above 0; a step that was left out has moved nothing."""
    moved = ratios[ratios > 0]
    return float(np.median(moved)) if len(moved) else float("nan")
