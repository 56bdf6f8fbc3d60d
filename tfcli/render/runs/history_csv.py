"""A run's metrics as a table: a line a report or evaluation, in the order of the steps."""

import csv
import io

from tfcli.records.runs import EvaluationPoint, History, StepPoint

_COLUMNS = (
    *("event", "step", "tokens", "seconds", "loss", "learning_rate", "grad_norm", "spike", "accuracy", "of"),
    *("part", "objective"),
)


def history_csv(history: History) -> str:
    """CSV with a heading. What an event does not tell is empty."""
    points: list[StepPoint | EvaluationPoint] = [*history.training, *history.validation, *history.whole]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for point in sorted(points, key=lambda point: point.step):
        event = "step" if isinstance(point, StepPoint) else "evaluated"
        writer.writerow([event, *(getattr(point, name, None) for name in _COLUMNS[1:])])
    return text.getvalue()
