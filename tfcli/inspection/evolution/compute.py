"""Evolution of a measurement over training: each kept checkpoint is loaded, and measured as any weights are."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tfcli.errors import UsageError
from tfcli.inspection.ablation import Ablation, part_name
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.inspection.heads import HeadsRecord, HeadStatistics
from tfcli.runs.load import LoadedRun, load_run
from tfcli.runs.metrics import read_history

FEWEST = 3
"""Checkpoints that make a curve."""

R = TypeVar("R")


def at_checkpoints(run: LoadedRun, measure: Callable[[LoadedRun], R]) -> dict[int, R]:
    """What a function finds with the weights of every checkpoint that is kept, by its step. A UsageError where these
    are fewer than three."""
    kept = list(run.directory.checkpoints())
    if len(kept) < FEWEST:
        few = f"{len(kept)} checkpoints, of steps {' and '.join(map(str, kept))}"
        few = few if len(kept) > 1 else f"one checkpoint, of step {kept[0]}" if kept else "no checkpoints"
        raise UsageError(
            f"The run {run.directory.path} keeps {few}, and an evolution needs three",
            "train with --set train.keep_every=STEPS, or with --set train.keep_checkpoints=8 for the last ones",
        )
    return {step: measure(load_run(run.directory.path, str(step), run.device)) for step in kept}


def heads_evolution(
    run: LoadedRun,
    measure: Callable[[LoadedRun], HeadsRecord],
    what: str,
    figure: Callable[[HeadStatistics], float | None],
) -> Evolution:
    """One figure of each head, called `what`, and its roles."""
    records = at_checkpoints(run, measure)
    first, *_ = records.values()
    several = len({one.kind for one in first.heads}) > 1
    parts = [
        Evolved(
            f"{same[0].kind} {same[0].place}" if several else same[0].place,
            tuple(map(figure, same)),
            said=tuple(one.role for one in same),
        )
        for same in zip(*(record.heads for record in records.values()), strict=True)
    ]
    return evolution_of(run, what, first.measured_on, records, parts)


def ablation_evolution(run: LoadedRun, measure: Callable[[LoadedRun], Ablation]) -> Evolution:
    """What is lost without each part: of a text the difference of two logits, of many texts the loss."""
    records = at_checkpoints(run, measure)
    first, *_ = records.values()
    what = f"what each part, replaced by {first.replaced}, changes of the "
    what += "loss, nats a token" if first.text is None else f"logit of {first.text.token} less {first.text.against}"
    sides = len({part.side for part in first.parts}) > 1
    parts = [
        Evolved(
            part_name(same[0], sides=sides),
            tuple(one.loss if first.text is None else one.difference for one in same),
            tuple(one.interval for one in same) if first.text is None else (),
        )
        for same in zip(*(record.parts for record in records.values()), strict=True)
    ]
    return evolution_of(run, what, first.measured_on, records, parts)


def evolution_of(
    run: LoadedRun, what: str, measured_on: str, steps: Mapping[int, object], parts: Sequence[Evolved]
) -> Evolution:
    """With the losses that the run's metrics have."""
    history = read_history(run.directory.metrics)
    training, validation = ([(one.step, one.loss) for one in of] for of in (history.training, history.validation))
    about = (str(run.directory.path), what, measured_on)
    return Evolution(*about, tuple(steps), tuple(parts), tuple(training), tuple(validation))
