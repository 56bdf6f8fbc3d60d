"""Evolution of a measurement over training: each kept checkpoint is loaded, and measured as any weights are."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tfcli.errors import UsageError
from tfcli.inspection.ablation import Ablation, part_name
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.inspection.heads import HeadsRecord, HeadStatistics
from tfcli.inspection.probe import Probe
from tfcli.runs.load import LoadedRun, load_run
from tfcli.runs.metrics import read_history

R = TypeVar("R")


def at_checkpoints(run: LoadedRun, measure: Callable[[LoadedRun], R]) -> dict[int, R]:
    """What a function finds with the weights of every checkpoint that is kept, by its step. A UsageError where these
    are fewer than three."""
    kept = list(run.directory.checkpoints())
    if len(kept) < 3:
        few = ("no checkpoints", "one checkpoint, of step {}", "two checkpoints, of steps {} and {}")[len(kept)]
        raise UsageError(
            f"The run {run.directory.path} keeps {few.format(*kept)}, and an evolution needs three",
            "train with --set train.keep_every=STEPS, or with --set train.keep_checkpoints=8 for the last ones",
        )
    return {step: measure(load_run(run.directory.path, str(step), run.device)) for step in kept}


def heads_evolution(
    run: LoadedRun, records: Mapping[int, HeadsRecord], what: str, figure: Callable[[HeadStatistics], float | None]
) -> Evolution:
    """One figure of each head, called `what`, and its roles."""
    first, *_ = records.values()
    several = len({one.kind for one in first.heads}) > 1
    parts = []
    for same in zip(*(record.heads for record in records.values()), strict=True):
        name = f"{same[0].kind} " * several + same[0].place
        parts.append(Evolved(name, tuple(map(figure, same)), said=tuple(one.role for one in same)))
    return _evolution(run, what, first.measured_on, tuple(records), parts)


def ablation_evolution(run: LoadedRun, records: Mapping[int, Ablation]) -> Evolution:
    """What is lost without each part: of a text the difference of two logits, of many texts the loss."""
    first, *_ = records.values()
    of = "loss, nats a token" if first.text is None else f"logit of {first.text.token} less {first.text.against}"
    sides = len({part.side for part in first.parts}) > 1
    parts = []
    for same in zip(*(record.parts for record in records.values()), strict=True):
        values = tuple(one.loss if first.text is None else one.difference for one in same)
        intervals = tuple(one.interval for one in same) if first.text is None else ()
        parts.append(Evolved(part_name(same[0], sides=sides), values, intervals))
    what = f"what each part, replaced by {first.replaced}, changes of the {of}"
    return _evolution(run, what, first.measured_on, tuple(records), parts)


def probe_evolution(run: LoadedRun, records: Mapping[int, Probe]) -> Evolution:
    """By how much a probe of each layer passes the best of what it must pass."""
    first, *_ = records.values()
    parts = []
    for same in zip(*(record.layers for record in records.values()), strict=True):
        intervals = tuple((one.above_low, one.above_high) for one in same)
        parts.append(Evolved(same[0].name, tuple(one.above for one in same), intervals))
    what = f"held-out accuracy of a probe of {first.task}, above the best of majority, control and untrained model"
    return _evolution(run, what, first.source, tuple(records), parts)


def _evolution(run: LoadedRun, what: str, on: str, steps: tuple[int, ...], parts: Sequence[Evolved]) -> Evolution:
    history = read_history(run.directory.metrics)
    losses = (tuple((one.step, one.loss) for one in of) for of in (history.training, history.validation))
    return Evolution(str(run.directory.path), what, on, steps, tuple(parts), *losses)
