"""Ablation: a model without one head, MLP or layer, and what that costs.

A part is replaced by zero or by its mean over a corpus (Michel et al. 2019, section 2.3; Wang et al. 2023, 2.2), or by
its value on another text (resampling; Chan et al. 2022). A layer's value is what it adds to the residual stream.
Shape legend: B replacements, T tokens, D model, H heads, Dh size of a head, U documents, P parts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.evaluation.intervals import mean_intervals
from tfcli.inspection import interventions
from tfcli.inspection.ablation import OWN, AblatedPart, AblatedText, Ablation, Replacement
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.heads.find import Material
from tfcli.inspection.interventions import Part, Place, Side, attention_of, by_head, given, rerun, sides
from tfcli.inspection.passes import Inputs, ModelPass, own_places, record_model, require_residuals, with_masks
from tfcli.inspection.predictions.compute import Asked, answer, ask
from tfcli.models.head import require_head
from tfcli.records.evaluation import Interval
from tfcli.runs.load import LoadedRun

_DRAWS = 8  # other texts that the values on one text are taken from
_LOGITS_AT_A_TIME = 1 << 24

Value = Literal["heads", "cross_heads", "feed_forward", "layer"]


class _Reading(NamedTuple):
    """A text, and the right ids at some places, None where nobody knows them; `asked` is the number among them of the
    one whose logits are compared, and the two tokens."""

    inputs: Inputs
    places: tuple[int, ...]
    answers: tuple[int | None, ...]
    asked: tuple[int, int, int] | None = None


def ablate(
    run: LoadedRun,
    text: str | None = None,
    target: str | None = None,
    *,
    replaced: Replacement = "zero",
    material: Material | None = None,
    position: int | None = None,
    token: str | None = None,
    against: str | None = None,
) -> Ablation:
    """Replace every head, MLP and layer in turn, and measure on a text, or on each text of `material`, from which means
    and other texts are taken, too; one of the two is there. `token` and `against` are by default the two likeliest at
    the position, which is that of `ask`. A UsageError where the model has no residuals or no head, where all of the
    material is one text and another is needed, or where `ask` or `answer` raises one."""
    require_residuals(run.config.model)
    require_head(run.config.model)
    texts = () if material is None else material.texts
    if text is None and run.architecture == "encoder":
        texts = tuple(one for one in texts if own_places(run, one.encoder or ()))
        if not texts and material is not None:
            raise UsageError(f"{material.measured_on} have no word that is known", "name other text with --on SOURCE")
    if replaced == "resample" and len(texts) < 2:
        raise UsageError("A part's value on another text needs another text", "name more text with --on SOURCE")
    with torch.inference_mode():
        means = _means(run, texts) if replaced == "mean" else {}
        about = None
        if text is None:
            readings = [_read(run, one) for one in texts]
        else:
            readings, about = _asked(run, ask(run, text, target, position), token, against)
        found = []
        for number, reading in enumerate(readings):
            drawn = range(number + 1, number + 2) if text is None else range(min(_DRAWS, len(texts)))
            others = [texts[n % len(texts)] for n in drawn] if replaced == "resample" else [None]
            found.append(_effects(run, reading, means, others))
        parts = _parts(record_model(run.model, readings[0].inputs.tensors(run.device), weights=False))
    sums, floor = np.stack([one for one, _ in found]), max(one for _, one in found)
    known = np.array([sum(answer is not None for answer in one.answers) for one in readings], np.float64)
    base, effects = sums[:, 0], sums[:, 1:] - sums[:, :1]  # (U, 3) and (U, P, 3): nats, difference, log-probability
    moved = effects.sum(0) / (known.sum() or 1.0, 1.0, 1.0)  # of one text, only the reading that is asked has all three
    intervals = _intervals(effects[:, :, 0], known) if text is None else [None] * len(parts)
    there = (known.sum() > 0, about is not None, about is not None and about.true is not None)
    moved[np.abs(moved) <= floor] = 0.0
    figures = ([one if ok else None for one, ok in zip(row, there, strict=True)] for row in moved.tolist())
    if about is not None:
        difference, log = base[:, 1:].sum(0).tolist()
        about = replace(about, difference=difference, log_probability=None if about.true is None else log)
    its = {"decoder": "the text, without the token that ends it", "encoder": "the text"}
    scored = its.get(run.architecture, OWN if target is None else "the target and its end")
    return Ablation(
        replaced=replaced,
        measured_on=scored if material is None or text is not None else material.measured_on,
        source=None if material is None or replaced == "zero" else material.measured_on,
        documents=len(readings) if text is None else 1,
        loss=float(base[:, 0].sum() / known.sum()) if known.sum() else None,
        text=about,
        parts=tuple(
            replace(part, loss=loss, interval=between, difference=difference, log_probability=log)
            for part, between, (loss, difference, log) in zip(parts, intervals, figures, strict=True)
        ),
        rounding=floor,
    )


def _intervals(nats: NDArray[np.float64], known: NDArray[np.float64]) -> list[Interval | None]:
    """Of the mean over documents of what each part changes; nats (U, P), known (U,)."""
    return mean_intervals(np.column_stack([nats, known]))


def _read(run: LoadedRun, inputs: Inputs) -> _Reading:
    """Each next token of a document, or of a target; an encoder's has some masked."""
    read = inputs.sides[-1]
    if run.architecture != "encoder":
        return _Reading(inputs, tuple(range(len(read) - 1)), read[1:])
    return _hidden(run, read, own_places(run, read, sample=True))


def _hidden(run: LoadedRun, ids: Sequence[int], places: Sequence[int]) -> _Reading:
    return _Reading(Inputs(encoder=with_masks(run, ids, places)), tuple(places), tuple(ids[n] for n in places))


def _asked(run: LoadedRun, asked: Asked, token: str | None, against: str | None) -> tuple[list[_Reading], AblatedText]:
    """What is asked of one text. An encoder has each token masked alone, as it predicts; where the text has masks of
    its own, that of the position counts."""
    place, true = asked.places[asked.position], asked.answers[asked.position]
    free = own_places(run, asked.read)
    if asked.kind == "next":
        readings = [_Reading(asked.inputs, asked.places, asked.answers)]
    elif None in asked.answers:
        readings = [_Reading(asked.inputs, (place,), (true,))]
    elif place not in free:
        raise UsageError(f"Position {place} has no known word, which could be masked", "choose one that has")
    else:
        readings = [_hidden(run, asked.read, [n]) for n in free]
    here = next(n for n, one in enumerate(readings) if place in one.places)
    hidden = run.model.hidden(*readings[here].inputs.tensors(run.device))
    wanted = answer(run, logits := run.model.head(hidden[0, place]), token)
    if against is None:  # the second
        logits = logits.index_fill(0, torch.tensor([wanted], device=logits.device), -torch.inf)
    other = answer(run, logits, against, beside=wanted)
    readings[here] = readings[here]._replace(asked=(readings[here].places.index(place), wanted, other))
    read, names = (run.tokenizer.labels(ids) for ids in (asked.read, [wanted, other, true or 0]))
    known = None if true is None else names[2]
    return readings, AblatedText(tuple(read), place, names[0], names[1], known, difference=0.0, log_probability=None)


_Key = tuple[Side, int, Value]


def _values(passed: ModelPass) -> dict[_Key, Tensor]:
    """What is replaced, in order: (T, …) each."""
    found: dict[_Key, Tensor] = {}
    for side, stack in sides(passed).items():
        for number, layer in enumerate(stack.layers):
            crossed: list[Value] = ["cross_heads"] * (layer.cross is not None)
            mlp: list[Value] = ["feed_forward"] * layer.has_feed_forward
            places: list[Value] = ["heads", *crossed, *mlp]
            found |= {(side, number, place): given(layer, cast(Place, place)) for place in places}
            found[side, number, "layer"] = layer.after - layer.before
    return found


def _means(run: LoadedRun, texts: Sequence[Inputs]) -> dict[_Key, Tensor]:
    """Of every value over all tokens of some texts."""
    sums: dict[_Key, Tensor] = {}
    tokens: Counter[Side] = Counter()
    for inputs in texts:
        passed = record_model(run.model, inputs.tensors(run.device), weights=False)
        tokens.update({side: len(stack.hidden) for side, stack in sides(passed).items()})
        for key, value in _values(passed).items():
            sums[key] = sums.get(key, 0) + value.double().sum(0)
    return {key: (total / tokens[key[0]]).float() for key, total in sums.items()}


def _parts(passed: ModelPass) -> list[AblatedPart]:
    """In the order in which `_effects` has them."""
    found: list[AblatedPart] = []
    for side, layer, value in _values(passed):
        if value in ("heads", "cross_heads"):
            kind: AttentionKind = "cross" if value == "cross_heads" else f"{side}_self"  # type: ignore[assignment]
            heads = len(passed.attentions(kind)[layer].mixed)
            found += [AblatedPart("head", side, layer, kind, head) for head in range(heads)]
        else:
            found.append(AblatedPart("layer" if value == "layer" else "MLP", side, layer))
    return found


def _effects(
    run: LoadedRun, reading: _Reading, means: Mapping[_Key, Tensor], others: Sequence[Inputs | None]
) -> tuple[NDArray[np.float64], float]:
    """Nats, difference and log-probability of a text, and without each part, (1 + P, 3); what rounding does to them.
    Values are the means, those of each of the others in turn, or, without either, zero."""
    passed = record_model(run.model, reading.inputs.tensors(run.device), weights=False)
    base = _measured(run, passed.last.hidden[None], reading)
    again = [_measured(run, hidden, reading) for hidden in interventions.unchanged(run.model, passed)]
    draws = []
    for other in others:
        theirs = {} if other is None else _values(record_model(run.model, other.tensors(run.device), weights=False))
        rows = []
        for (side, layer, value), own in _values(passed).items():
            if other is None:
                new = means.get((side, layer, value), own.new_zeros(())).expand_as(own)
            else:  # from the beginning again where the other text is shorter
                there = theirs[side, layer, value]
                new = there[torch.arange(len(own), device=own.device) % len(there)]
            one = sides(passed)[side].layers[layer]
            if value == "layer":
                part, new = Part(side, layer + 1, "residual"), (one.before + new)[None]
            else:
                part = Part(side, layer, value)
                new = new[None] if value == "feed_forward" else by_head(attention_of(one, value).mixed, new)
            rows.append(_measured(run, rerun(run.model, passed, part, new), reading))
        draws.append(np.concatenate(rows))
    floor = 10 * max(float(np.abs(one - base).max()) for one in again)
    return np.concatenate((base, np.mean(draws, 0))), max(floor, torch.finfo(torch.float32).eps)


def _measured(run: LoadedRun, hidden: Tensor, reading: _Reading) -> NDArray[np.float64]:
    """Nats of all answers, difference of two logits, log-probability of the answer there: (B, T, D) → (B, 3)."""
    places, found, vocabulary = list(reading.places), [], run.config.model.vocab_size or 1
    known = [n for n, answer in enumerate(reading.answers) if answer is not None]
    right = torch.tensor([reading.answers[n] for n in known], dtype=torch.long, device=hidden.device)
    for some in hidden.split(max(1, _LOGITS_AT_A_TIME // (vocabulary * len(places)))):
        logs = (logits := run.model.head(some[:, places]).double()).log_softmax(-1)
        nats = -logs[:, known].gather(-1, right.expand(len(some), -1)[..., None]).sum((1, 2))
        difference = log_probability = torch.zeros_like(nats)
        if reading.asked is not None:
            at, token, against = reading.asked
            difference = logits[:, at, token] - logits[:, at, against]
            if (answer := reading.answers[at]) is not None:
                log_probability = logs[:, at, answer]
        found.append(torch.stack((nats, difference, log_probability), 1).cpu())
    return torch.cat(found).numpy()
