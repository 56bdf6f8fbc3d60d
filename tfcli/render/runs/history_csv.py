"""A run's metrics as CSV: a line a report or evaluation, in the order of the steps."""

from tfcli.records.runs import EvaluationPoint, History, StepPoint
from tfcli.render.table_csv import Table, to_csv

_COLUMNS = (
    *("event", "step", "tokens", "seconds", "loss", "learning_rate", "grad_norm", "spike", "accuracy", "of"),
    *("part", "objective"),
)


def history_csv(history: History) -> str:
    """CSV with a heading. What an event does not tell is empty."""
    points: list[StepPoint | EvaluationPoint] = [*history.training, *history.validation, *history.whole]
    rows = (
        ["step" if isinstance(one, StepPoint) else "evaluated", *(getattr(one, name, None) for name in _COLUMNS[1:])]
        for one in sorted(points, key=lambda point: point.step)
    )
    return to_csv(Table(_COLUMNS, rows))
