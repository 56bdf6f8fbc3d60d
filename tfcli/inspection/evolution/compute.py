"""Evolution of a measurement over training: each kept checkpoint is loaded, and measured as any weights are."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from tfcli.errors import UsageError
from tfcli.inspection.ablation import Ablation
from tfcli.inspection.ablation import part_name as ablated
from tfcli.inspection.attribution import CHANCE, Attribution, InputAttribution, part_name
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.inspection.heads import HeadsRecord, HeadStatistics
from tfcli.inspection.patching import HEADS, KINDS, Patching
from tfcli.inspection.probe import Probe
from tfcli.records.evaluation import loss_unit
from tfcli.runs.load import LoadedRun, load_run
from tfcli.runs.metrics import read_history

R = TypeVar("R")


def at_checkpoints(run: LoadedRun, measure: Callable[[LoadedRun], R]) -> dict[int, R]:
    """What a function finds with the weights of every checkpoint that is kept, by its step. A UsageError where these
    are fewer than three."""
    return {step: measure(load_run(run.directory.path, str(step), run.device)) for step in kept_steps(run)}


def kept_steps(run: LoadedRun) -> list[int]:
    """The steps of the checkpoints that are kept; a UsageError where they are fewer than three."""
    kept = list(run.directory.checkpoints())
    if len(kept) < 3:
        few = ("no checkpoints", "one checkpoint, of step {}", "two checkpoints, of steps {} and {}")[len(kept)]
        remedy = "train with --set train.keep_every=STEPS, or with --set train.keep_checkpoints=8 for the last ones"
        raise UsageError(
            f"The run {run.directory.path} keeps {few.format(*kept)}, and an evolution needs three", remedy
        )
    return kept


def evolution(run: LoadedRun, picture: Callable[..., Any], *texts: str | None, **how: Any) -> Evolution:
    """What a picture of causes finds at every checkpoint, of the position, tokens and places that the run's weights
    choose; None where one answers two texts alike. A UsageError as of both, and where translations differ."""
    given = signature(picture).bind(run, *texts, **how)
    given.apply_defaults()
    if run.architecture == "encoder-decoder" and any(texts) and given.arguments.get("target", "") is None:
        raise UsageError("Every checkpoint has a translation of its own", "give one for all: --target TEXT")
    kept_steps(run)
    chosen = picture(run, *texts, **how)
    asked = {Ablation: "text", InputAttribution: "direct"}.get(type(chosen))
    fixed = chosen if asked is None else getattr(chosen, asked)
    if fixed and not isinstance(chosen, Probe):
        how |= {name: getattr(fixed, name) for name in ("position", "token", "against")}
    what, parts, chance = _figures(chosen, chosen)

    def measured(one: LoadedRun) -> list[Evolved]:
        with suppress(UsageError):
            return _figures(picture(one, *texts, **how), chosen)[1]
        return [Evolved(part.name, (None,)) for part in parts]

    on = chosen.source if isinstance(chosen, Probe) else getattr(chosen, "measured_on", "the text")
    read = [side.clean for side in chosen.sides] if isinstance(chosen, Patching) else [getattr(chosen, "read", ())]
    cited = dict.fromkeys((getattr(fixed, "token", None), getattr(fixed, "against", None), *chain(*read)))
    joined = _joined(run, what, on, at_checkpoints(run, measured), chance)
    return replace(joined, tokens=tuple(token for token in cited if token is not None))


def heads_evolution(
    run: LoadedRun, records: Mapping[int, HeadsRecord], what: str, role: str, figure: Callable[[HeadStatistics], Any]
) -> Evolution:
    """One figure of each head, called `what`, with the chance of the `role` whose share it is, or of copies; and the
    heads' roles."""
    found = {}
    for step, record in records.items():
        several = len({one.kind for one in record.heads}) > 1
        names = {one: f"{KINDS[one.kind]} " * several + one.place for one in record.heads}
        found[step] = [Evolved(name, (figure(one),), said=(one.role,)) for one, name in names.items()]
    on, chances = record.measured_on, [share.chance for one in record.heads if (share := one.of(role)) is not None]
    if what.startswith(("induction", "duplicate")):
        on = f"{record.sequences} sequences of {record.repeated} random tokens, read twice in a row; roles: on {on}"
        chances = [one.even for one in record.heads if one.even is not None]
    return _joined(run, what, on, found, float(np.mean(chances)) if chances else None)


def _figures(record: Any, chosen: Any) -> tuple[str, list[Evolved], float | None]:
    """What a record says: its name, parts with one value each, and the chance of each."""
    if isinstance(record, InputAttribution):  # shares, where the order does more than a random one
        if len(record.methods) > 1:
            raise UsageError("An evolution follows one method", "name it with --method")
        is_told, row = (record.as_good <= CHANCE).any(), record.values[0]
        shares = {at: float(one) for at, one in enumerate(row / (np.nansum(abs(row)) or 1.0)) if not np.isnan(one)}
        parts = [Evolved(f"{at} {record.read[at]!r}", (one if is_told else None,)) for at, one in shares.items()]
        return f"each token's share by {record.methods[0]}, where its order beats random ones", parts, 1 / len(shares)
    if isinstance(record, Probe):
        what = f"held-out accuracy of a probe of {record.task}, above the best of majority, control and untrained model"
        told = [(one.name, (one.above,), ((one.above_low, one.above_high),)) for one in record.layers]
        return what, [Evolved(*one) for one in told], None
    asked = record.text if isinstance(record, Ablation) else record
    of = f"logit of {asked.token!r}" if asked else "loss, nats per token"
    of += f" less {asked.against!r}" if asked and asked.against else ""
    if isinstance(record, Attribution):
        return f"what the {of} owes to each part", [Evolved(part_name(p.part), (p.value,)) for p in record.parts], None
    if isinstance(record, Ablation):
        found = [((one.difference,), ()) if asked else ((one.loss,), (one.interval,)) for one in record.parts]
        sides = len({one.side for one in record.parts}) > 1
        parts = [Evolved(ablated(one, sides=sides), *both) for one, both in zip(record.parts, found, strict=True)]
        return f"what each part, replaced by {record.replaced}, changes of the {of}", parts, None
    what = "what the largest place of each part and layer moves"
    what = f"what {record.sender} moves by way of the largest part of each layer" if record.sender else what
    return f"{of}: {what} ({record.direction})", _moved(record, chosen), None


def _moved(record: Patching, chosen: Patching) -> list[Evolved]:
    """In logits, which are there where shares are not, what a pair's largest places move, by their names."""
    whole = (record.clean - record.corrupt) * (1 if record.direction == "denoising" else -1)
    parts, sides = [Evolved("the whole other text", (whole,))], {side.side: side.clean for side in chosen.sides}
    if record.direct is not None:
        parts.append(Evolved("to the logits by no later part", (record.direct * whole,)))
    differing = [(side.side, "residual", 0) for side in chosen.sides for _ in side.differing]
    for grid, theirs in zip(record.grids, chosen.grids, strict=True):
        for layer, row in enumerate(theirs.effects):
            if np.isnan(row).all() or differing == [(grid.side, grid.part, layer)]:  # one token is the whole text
                continue
            place = int(np.argmax(np.nan_to_num(abs(row))))
            what = HEADS.get(grid.part, "") if grid.kind else f"at {place} {sides[grid.side][place]!r}"
            name = f"{grid.name(layer, place, sides=len(sides) > 1)} {what}".rstrip()
            parts.append(Evolved(name, (float(grid.effects[layer, place]) * whole,)))
    return parts


def _joined(run: LoadedRun, what: str, on: str, found: dict[int, list[Evolved]], chance: float | None) -> Evolution:
    parts = []
    for same in zip(*found.values(), strict=True):
        three = (tuple(chain(*(getattr(one, of) for one in same))) for of in ("values", "intervals", "said"))
        parts.append(Evolved(same[0].name, *three))
    history = read_history(run.directory.metrics)
    losses = [tuple((one.step, one.loss) for one in of) for of in (history.training, history.validation)]
    return Evolution(
        run=str(run.directory.path),
        what=what,
        measured_on=on,
        steps=tuple(found),
        parts=tuple(parts),
        training=losses[0],
        validation=losses[1],
        chance=chance,
        loss_unit=loss_unit(run.recipe.objective),
    )
