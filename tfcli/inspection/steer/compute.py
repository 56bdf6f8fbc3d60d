"""Contrastive steering vectors: the mean residual stream on some texts less that on others; their effect and cost.

Rimsky et al. 2024, section 3, who take one token of a text; here the mean over all (Turner et al. 2023 keep positions
apart). Shape legend: N texts, D model, U documents.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tfcli.errors import UsageError, shortened
from tfcli.evaluation.bootstrap import Array
from tfcli.evaluation.intervals import mean_interval
from tfcli.evaluation.windows import require_tokens
from tfcli.generation.generate import generate
from tfcli.generation.steering import layer_at, steered
from tfcli.inspection.heads.find import Material
from tfcli.inspection.passes import Inputs, own_places, read_text, require_residuals, with_masks
from tfcli.inspection.steer import FIGURES, Change, Steered, Steering
from tfcli.models.head import require_head
from tfcli.recipe.loading import generation_settings
from tfcli.records.evaluation import Interval
from tfcli.runs.load import LoadedRun

STRENGTHS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_FEWEST = 6  # texts of a set: of fewer, a half is no sample, and there are few ways to shuffle
_CONTROLS, _DOCUMENTS, _TOKENS = 39, 32, 8  # one in 40 above all controls and one below: p = 0.05
_MADE = {"max_new_tokens": 32, "num_samples": 1, "beam": 1, "beam_groups": 1}


class Read(NamedTuple):
    """The own tokens of a text, or of its translation; mean, (D,), and mean norm of the residual stream over tokens."""

    ids: set[int]
    mean: Array
    norm: float


@torch.inference_mode()
def read_stream(run: LoadedRun, at: str, text: str) -> Read:
    """Read a text, an encoder-decoder with its own translation. A UsageError as of `read_text`, or where there are only
    special tokens."""
    inputs, kept = read_text(run, text, remark=False), list[Tensor]()
    with layer_at(run.model, at).register_forward_hook(lambda module, given, output: kept.append(output)):
        run.model.hidden(*inputs.tensors(run.device))
    if not (own := own_places(run, inputs.sides[0 if "." in at else -1])):
        raise UsageError(f"The text {shortened(text)!r} has only special and unknown tokens", "give a few words")
    stream, last = kept[0][0, own].cpu().double(), inputs.sides[-1]
    ids = {last[place] for place in own_places(run, last)}
    return Read(ids, stream.mean(0).numpy(), float(stream.norm(dim=-1).mean()))


def chosen_layer(run: LoadedRun, at: str | None) -> str:
    """The layer of this name, or the middle one, of two the first: no layer reads what leaves the last. A UsageError
    without it, or a head, or residuals."""
    require_head(run.config.model)
    require_residuals(run.config.model)
    layer_at(run.model, at := at or str((run.config.model.decoder_layers - 1) // 2))
    return at


def steer(
    run: LoadedRun, prompt: str | None = None, *, from_: Any, to: Any, material: Material, at: str | int | None = None
) -> Steering:
    """What `steering` finds between two texts, or several of each; a UsageError as of all that is called."""
    at = chosen_layer(run, None if at is None else str(at))
    sets = [[one] if isinstance(one, str) else one for one in (from_, to)]
    if wrong := [one for one in sets if not (isinstance(one, list | tuple) and one and {*map(type, one)} == {str})]:
        raise UsageError(f"{shortened(repr(wrong[0]))} is no set of texts", "give a text, or a list of one or more")
    return steering(run, at, [{text: read_stream(run, at, text) for text in one} for one in sets], material, prompt)[0]


def steering(
    run: LoadedRun, at: str, sets: Sequence[Mapping[str, Read]], material: Material, prompt: str | None = None
) -> tuple[Steering, Tensor]:
    """The direction, (D,), from one set of texts to another, and what it does to the text that is made of a `prompt`
    (None: the first text, or one mask), and in other texts to the loss and the sets' own tokens. A UsageError where
    the sets have one mean, or the prompt does not fit."""
    reads, draw = [read for one in sets for read in one.values()], np.random.default_rng(0)
    means, is_to = np.stack([one.mean for one in reads]), np.arange(len(reads)) >= len(sets[0])
    direction, stream_norm = _direction(means, is_to), float(np.mean([one.norm for one in reads]))
    if (norm := float(np.linalg.norm(direction))) < 1e-6 * stream_norm:
        raise UsageError("The texts of --from and those of --to have the same mean", "give sets that differ")
    if prompt is None:
        mask = run.config.roles.mask if run.architecture == "encoder" else None
        prompt = next(iter(sets[0])) if mask is None else run.tokenizer.labels([mask])[0]
    tokens, settings, found = _telling(reads, is_to), generation_settings(run.recipe, _MADE), list[Steered]()

    def sums(vector: Array, strength: float) -> Array:
        with steered(run.model, torch.from_numpy(vector), at, strength):
            return np.array([_sums(run, one, tokens) for one in material.texts[:_DOCUMENTS]])

    plain = sums(direction, 0)
    require_tokens(int(plain[:, 1].sum()))
    for strength in STRENGTHS:
        with steered(run.model, torch.from_numpy(direction), at, strength):
            made: Any = generate(run, prompt, settings, sample=False)
        one = made[0] if isinstance(made, list) else made
        changes, finish = _changes(sums(direction, strength), plain), getattr(one, "finish", None)
        found.append(Steered(strength, one.text, **changes, finish=finish))
    others = [draw.standard_normal(len(direction)) for _ in range(_CONTROLS)]
    moved = [_changes(sums(one * norm / np.linalg.norm(one), 1), plain) for one in others]
    separation = None
    if min(map(len, sets)) >= _FEWEST:
        half = np.concatenate([np.arange(len(one)) < len(one) / 2 for one in sets])
        orders = (draw.permutation(len(reads)) for _ in range(_CONTROLS))
        shuffled = _range(_separation(means, is_to[order], half[order]) for order in orders)
        separation = _separation(means, is_to, half), shuffled
    record = Steering(
        at=at,
        stack="encoder" if "." in at or run.architecture == "encoder" else "decoder",
        texts=(len(sets[0]), len(sets[1])),
        norm=norm,
        stream_norm=stream_norm,
        tokens=tuple(tuple(run.tokenizer.labels(one)) for one in tokens),
        measured_on=f"the first {min(_DOCUMENTS, len(material.texts))} of {material.measured_on}",
        prompt=prompt,
        strengths=tuple(found),
        chance={name: _range(one[name].change for one in moved) for name in FIGURES},
        separation=separation,
    )
    return record, torch.from_numpy(direction)


def _range(values: Iterable[float]) -> Interval:
    return (ranked := sorted(values))[0], ranked[-1]


def _direction(means: Array, is_to: Any) -> Array:
    direction: Array = means[is_to].mean(0) - means[~is_to].mean(0)
    return direction


def _separation(means: Array, is_to: Any, first: Any) -> float:
    """How often a text of --to lies further along than one of --from, each half of the texts along the direction of the
    other half; a tie counts half. Shape: means (N, D); is_to, first (N,)."""
    shares = []
    for half in (first, ~first):
        along, is_high = means[~half] @ _direction(means[half], is_to[half]), is_to[~half]
        shares.append((np.sign(along[is_high, None] - along[~is_high]).mean() + 1) / 2)
    return float(np.mean(shares))


def _telling(reads: Sequence[Read], is_to: Any) -> tuple[list[int], list[int]]:
    """The tokens that more texts of --from have than of --to, by shares, and those of which it is the other way."""
    more, weights = Counter[int](), np.where(is_to, 1 / is_to.sum(), -1 / (~is_to).sum())
    for read, weight in zip(reads, weights.tolist(), strict=True):
        more.update(dict.fromkeys(read.ids, weight))
    ranked = sorted(more, key=lambda token: (more[token], token))
    return [one for one in ranked[:_TOKENS] if more[one] < 0], [t for t in ranked[: -_TOKENS - 1 : -1] if more[t] > 0]


@torch.inference_mode()
def _sums(run: LoadedRun, inputs: Inputs, tokens: Sequence[Sequence[int]]) -> list[float]:
    """Of a text nats, predicted tokens, and the probability that goes to the tokens of --to and of --from."""
    read = inputs.sides[-1]
    places, answers = list(range(len(read) - 1)), torch.tensor(read[1:])
    if run.architecture == "encoder":
        places = own_places(run, read, sample=True)
        inputs, answers = Inputs(encoder=with_masks(run, read, places)), torch.tensor(read)[places]
    ids = inputs.tensors(run.device)
    logs = run.model.head(run.model.hidden(*ids)[0, places]).cpu().double().log_softmax(-1)
    nats = -float(logs.gather(-1, answers[:, None]).sum())
    return [nats, len(answers), *(float(logs[:, one].exp().sum()) for one in reversed(tokens))]


def _changes(sums: Array, plain: Array) -> dict[str, Change]:
    """Each figure, held against that of the `plain` model. Shape: (U, 4), as of `_sums`."""
    changes = {}
    tokens = plain[:, 1]
    for name, column in zip(FIGURES, (0, 2, 3), strict=True):
        differences = sums[:, column] - plain[:, column]
        changes[name] = Change(
            value=float(sums[:, column].sum() / tokens.sum()),
            change=float(differences.sum() / tokens.sum()),
            interval=mean_interval(differences, tokens),
        )
    return changes
