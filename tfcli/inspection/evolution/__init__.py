"""Evolution: what a picture measures, at every checkpoint that a run keeps, beside the loss."""

from dataclasses import dataclass

from tfcli.records.evaluation import Interval, leaves_out_0


@dataclass(frozen=True)
class Evolved:
    """A number at each of the checkpoints; None where it was not measured. `intervals`, where it is a mean over
    documents: one that holds 0 cannot be told from it. `said`: what the checkpoints say in words, where it changes."""

    name: str
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...] = ()
    said: tuple[str, ...] = ()

    def told(self) -> tuple[float | None, ...]:
        """The values, 0 where an interval holds it."""
        sure = map(leaves_out_0, self.intervals or [None] * len(self.values))
        return tuple(value if known or value is None else 0.0 for value, known in zip(self.values, sure, strict=True))

    @property
    def largest(self) -> float:
        """The distance from 0 that it reaches."""
        return max((abs(value) for value in self.told() if value is not None), default=0.0)


@dataclass(frozen=True)
class Evolution:
    """Numbers over the `steps` of the kept checkpoints; losses as metrics.jsonl has them, in `loss_unit`, by step;
    `chance`: what a part would be if all were even, where there is such; `tokens`: those that `what` and names cite."""

    run: str
    what: str
    measured_on: str
    steps: tuple[int, ...]
    parts: tuple[Evolved, ...]
    training: tuple[tuple[int, float | None], ...]
    validation: tuple[tuple[int, float | None], ...]
    chance: float | None = None
    tokens: tuple[str, ...] = ()
    loss_unit: str = "nats per token"
