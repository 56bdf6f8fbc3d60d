"""Activation patching: which part of a model makes it answer one text and not another; path patching.

A model reads a clean and a corrupt text that differ in a few words. One part of the pass on the one is put into the
pass on the other, and the difference of two logits says how far the answer follows (Vig et al. 2020; Meng et al. 2022,
"causal tracing"; Heimersheim and Nanda 2024 on the two directions). Path patching lets one head's change reach one
later part alone (Wang et al. 2023, section 3.1; Goldowsky-Dill et al. 2023).
Shape legend: B patches, T tokens, D model, H heads, Dh size of a head, L layers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection import interventions
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.interventions import Part, Side, attention_of, by_head, given, heads_of, rerun, sides
from tfcli.inspection.passes import KINDS, AttentionPass, Inputs, ModelPass, StackPass, place_in_run, record_model
from tfcli.inspection.patching import PatchedSide, PatchGrid, Patching, PatchPart
from tfcli.inspection.predictions.compute import Asked, answer, ask
from tfcli.models.transformer import Transformer
from tfcli.records.arrays import frozen
from tfcli.records.heads import HeadPlace
from tfcli.runs.load import LoadedRun

Measure = Callable[[Tensor], Tensor]  # from last vectors, (B, T, D), to a logit difference each, (B,)
_ROUNDINGS = 10.0  # what is this many times the rounding of a pass is an effect


def patch(
    run: LoadedRun,
    clean: str,
    corrupt: str,
    target: str | None = None,
    *,
    position: int | None = None,
    token: str | None = None,
    against: str | None = None,
    noising: bool = False,
    path: tuple[int, int] | None = None,
    kind: AttentionKind | None = None,
) -> Patching:
    """Patch every layer × position of what writes into the residual stream, and every layer × head's output, pattern
    and values; or, with a `path`, what a head (layer, head) of `kind` gives to each later part.

    The position is that of `ask`; an encoder-decoder without a target is asked where its two translations part. `token`
    and `against` are by default the likeliest of the clean and of the corrupt text there. A UsageError where the texts
    have different numbers of tokens or are the same, or are answered alike, or `ask`, `answer` or `place_in_run` do so.
    """
    if path is not None:
        kind = kind or KINDS[run.architecture][-1]
        place_in_run(run, kind, HeadPlace(*path), "--path")
    asked = [ask(run, text, target, position) for text in (clean, corrupt)]
    inputs, place = _aligned(run, asked, is_given=target is not None, position=position)
    with torch.inference_mode():
        passes = [record_model(run.model, one.tensors(run.device), weights=False) for one in inputs]
        answers = [run.model.head(one.last.hidden[place]) for one in passes]
        wanted = answer(run, answers[0], token)
        other = answer(run, answers[1], against, beside=wanted)
        labels = run.tokenizer.labels([wanted, other])

        def difference(hidden: Tensor) -> Tensor:
            logits = run.model.head(hidden[:, place])
            return logits[:, wanted] - logits[:, other]

        base, source = passes if noising else passes[::-1]
        low, high = (float(difference(one.last.hidden[None])) for one in (base, source))
        again = [(difference(one) - low).abs().max() for one in interventions.unchanged(run.model, base)]
        least = torch.finfo(base.last.hidden.dtype).eps * max(1.0, abs(low))
        floor = _ROUNDINGS * max(least, *map(float, again))
        if abs(high - low) <= 100 * floor:
            what = f"{labels[0]!r} and {labels[1]!r} logits that are {low:+.3g} and {high:+.3g} apart"
            remedy = "give texts that are answered otherwise, or name two tokens that they decide between"
            raise UsageError(f"Both texts give {what}", remedy)

        def effect(hidden: Tensor) -> Tensor:
            moved = difference(hidden) - low
            return torch.where(moved.abs() <= floor, 0.0, moved / (high - low)).cpu()

        direct, sender = None, None
        if path is None or kind is None:
            grids = list(every_grid(run.model, base, source, effect))
        else:
            grids, direct = _paths(run.model, base, source, heads_of(kind, path[0]), head=path[1], measure=effect)
            sender = f"{kind.removesuffix('_self')} head {path[0]}.{path[1]}"
    read = {name: [tuple(run.tokenizer.labels(getattr(one, name))) for one in inputs] for name in sides(base)}
    return Patching(
        sides=tuple(PatchedSide(name, *texts) for name, texts in read.items()),
        position=place,
        token=labels[0],
        against=labels[1],
        clean=high if not noising else low,
        corrupt=low if not noising else high,
        direction="noising" if noising else "denoising",
        grids=tuple(grids),
        rounding=floor,
        sender=sender,
        direct=direct,
    )


def _aligned(run: LoadedRun, asked: Sequence[Asked], is_given: bool, position: int | None) -> tuple[list[Inputs], int]:
    """What the model reads of the clean and of the corrupt text, of equal lengths, and the position that answers."""
    inputs, place = [one.inputs for one in asked], asked[0].places[asked[0].position]
    if run.architecture == "encoder-decoder" and not is_given:
        decoded = [one.decoder or () for one in inputs]
        shared = decoded[0][: _parted(*decoded)]
        if len(shared) == min(map(len, decoded)):
            raise UsageError("The model translates both texts alike", "give texts that it translates otherwise")
        place = len(shared) - 1 if position is None else position
        if place >= len(shared):
            problem = f"There is no position {place}: the two translations part behind position {len(shared) - 1}"
            raise UsageError(problem, f"choose one from 0 to {len(shared) - 1}, or give a --target")
        inputs = [replace(one, decoder=tuple(shared)) for one in inputs]
    elif run.architecture == "encoder" and position is None:
        if any(None not in one.answers for one in asked):
            raise UsageError("An encoder answers at a mask", "write <mask> in both texts, or give a --position")
        if asked[0].position != asked[1].position:
            masks = " and ".join(str(one.position) for one in asked)
            raise UsageError(f"The first masks stand at positions {masks}", "mask the same place of both texts")
    for clean, corrupt in zip(*(one.sides for one in inputs), strict=True):
        if len(clean) != len(corrupt):
            here = _parted(clean, corrupt)
            parts = [run.tokenizer.decode(list(ids[here : here + 4])).strip() for ids in (clean, corrupt)]
            where = f"positions do not correspond from {here} on, {parts[0]!r} against {parts[1]!r}"
            problem = f"The clean text and the corrupt one have {len(clean)} and {len(corrupt)} tokens: {where}"
            raise UsageError(problem, "exchange words for words of as many tokens (`tfcli inspect tokens` shows them)")
    if inputs[0] == inputs[1]:
        raise UsageError("The clean and the corrupt text are the same", "change the words that decide")
    return inputs, place


def _parted(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that two texts begin with together."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


Replaced = tuple[PatchPart, AttentionKind | None, Part]
_OF_HEADS: tuple[PatchPart, ...] = ("heads", "patterns", "values")


def replacements(model: Transformer, base: ModelPass, source: ModelPass) -> Iterator[tuple[Replaced, Tensor]]:
    """Everything but paths that is patched: a part, and what is put there, (B, T, ·) for some of its heads or positions
    and then for the next: those of a long text fill the memory."""
    at_a_time = interventions.texts_at_a_time(base)
    for side, ours in sides(base).items():
        kinds = _kinds(side, ours)
        layers = list(zip(ours.layers, sides(source)[side].layers, strict=True))
        crossed: list[interventions.Sublayer] = ["cross_attention"] * (len(kinds) > 1)
        mlp: list[interventions.Sublayer] = ["feed_forward"] * ours.layers[0].has_feed_forward
        sublayers: list[interventions.Sublayer] = ["residual", "attention", *crossed, *mlp]
        for sublayer in sublayers:
            for number, both in enumerate(layers):
                values, new = (given(layer, sublayer) for layer in both)
                positions = torch.arange(len(values), device=values.device)
                for some in positions.split(at_a_time):
                    at = (some[:, None] == positions)[..., None]
                    yield (sublayer, None, Part(side, number, sublayer)), torch.where(at, new, values)
        for kind in kinds:
            for name in _OF_HEADS:
                for number, both in enumerate(layers):
                    part, module = heads_of(kind, number), interventions.stack_of(model, side).layers[number]
                    one, two = (attention_of(layer, part.place) for layer in both)
                    weights, mixed = (two, one) if name == "patterns" else (one, two)
                    new = two.mixed if name == "heads" else interventions.remixed(module, kind, weights, mixed.value)
                    for some in torch.arange(len(new), device=new.device).split(at_a_time):
                        yield (name, kind, part), by_head(one.mixed, new, some)


def every_grid(model: Transformer, base: ModelPass, source: ModelPass, measure: Measure) -> Iterator[PatchGrid]:
    """The effects of `replacements`."""
    found = replacements(model, base, source)
    for (name, kind, side), some in groupby(found, lambda one: (*one[0][:2], one[0][2].side)):
        effects = torch.cat([measure(rerun(model, base, part, values)) for (*_, part), values in some])
        yield PatchGrid(name, side, kind, frozen(effects.view(len(sides(base)[side].layers), -1).numpy()))


def _paths(
    model: Transformer, base: ModelPass, source: ModelPass, sender: Part, head: int, measure: Measure
) -> tuple[list[PatchGrid], float]:
    """From one head to each later part, which alone reads what is new of it, and to the logits by no part at all."""
    own, other = (_attention(one, sender).mixed for one in (base, source))
    told, hidden = interventions.frozen_pass(model, base, sender, by_head(own, other)[head])
    effects: dict[Part, Tensor] = {}
    for part, values in told.items():
        values = values[None] if part.place == "feed_forward" else by_head(_attention(base, part).mixed, values)
        effects[part] = measure(rerun(model, base, part, values))
    grids = []
    for side, stack in sides(base).items():
        for kind in _kinds(side, stack):
            rows = []
            for layer in range(len(stack.layers)):
                sizes = {heads_of(kind, layer): len(_attention(base, heads_of(kind, layer)).mixed)}
                sizes |= {} if kind == "cross" else {Part(side, layer, "feed_forward"): 1}
                rows.append(torch.cat([effects.get(part, torch.full((n,), torch.nan)) for part, n in sizes.items()]))
            grids.append(PatchGrid("paths", side, kind, frozen(torch.stack(rows).numpy())))
    return grids, float(measure(hidden))


def _attention(passed: ModelPass, part: Part) -> AttentionPass:
    return attention_of(sides(passed)[part.side].layers[part.layer], part.place)


def _kinds(side: Side, stack: StackPass) -> list[AttentionKind]:
    """The kinds of attention that a stack has."""
    own: AttentionKind = "encoder_self" if side == "encoder" else "decoder_self"
    return [own] if stack.layers[0].cross is None else [own, "cross"]
