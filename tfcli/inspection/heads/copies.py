"""Induction heads and duplicate-token heads (Olsson et al. 2022), measured on random tokens read twice.

On such tokens nothing but the first copy tells what comes in the second, whatever text is looked at elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.inspection.heads import statistics as measure
from tfcli.inspection.kinds import KINDS
from tfcli.inspection.passes import ModelPass, record_model
from tfcli.inspection.reading import Inputs, framed
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun

_SEQUENCES = 4
_LONGEST = 50
_SHORTEST = 4
_SEED = 0

PerHead = NDArray[np.float64]


@dataclass(frozen=True)
class Repeated:
    """Inputs that hold `period` tokens twice; the first copy begins at `start`, of each side it stands on."""

    inputs: Inputs
    period: int
    encoder_start: int
    decoder_start: int


@dataclass(frozen=True)
class Copies:
    """The induction and duplicate scores of every head of a run.

    Args:
        period: tokens that are read twice; None where the context is too short. sequences: how many were read.
        scores: by kind and layer; by name "induction" and "duplicate", of (H,).
    """

    period: int | None
    sequences: int
    scores: Mapping[tuple[AttentionKind, int], Mapping[str, PerHead]]

    def of(self, kind: AttentionKind, layer: int) -> Mapping[str, PerHead]:
        """The scores of a layer's heads; none of cross-attention, or where the context is too short."""
        return self.scores.get((kind, layer), {})


def copies(run: LoadedRun) -> Copies:
    """Run the model on tokens read twice."""
    twice = repeated_sequences(run)
    with torch.inference_mode():
        passes = [record_model(run.model, one.inputs.tensors(run.device)) for one in twice]
    scores: dict[tuple[AttentionKind, int], dict[str, PerHead]] = {
        (kind, layer): _scores(kind, layer, passes, twice)
        for kind in KINDS[run.architecture]
        if kind != "cross" and passes
        for layer in range(len(passes[0].attentions(kind)))
    }
    return Copies(twice[0].period if twice else None, len(twice), scores)


def _scores(
    kind: AttentionKind, layer: int, passes: Sequence[ModelPass], twice: Sequence[Repeated]
) -> dict[str, PerHead]:
    """Means over the sequences."""
    scores: dict[str, list[PerHead]] = {"induction": [], "duplicate": []}
    for one, sequence in zip(passes, twice, strict=True):
        weights = one.attentions(kind)[layer].weights.cpu().double().numpy()
        start = sequence.encoder_start if kind == "encoder_self" else sequence.decoder_start
        scores["induction"].append(measure.induction(weights, start, sequence.period))
        scores["duplicate"].append(measure.duplicate(weights, start, sequence.period))
    return {name: np.mean(values, axis=0) for name, values in scores.items()}


def repeated_sequences(run: LoadedRun) -> list[Repeated]:
    """A few sequences of the run's own ordinary tokens, always the same; none where the context is too short.

    The tokens of a copy all differ while the vocabulary allows it, so that each has one earlier copy.
    """
    roles, ids = run.config.roles, np.array(sorted(run.tokenizer.ordinary_ids))
    before = 1 + max(map(len, (roles.source_start, roles.target_prefix, roles.text_prefix)))
    period = min(_LONGEST, len(ids), (run.config.model.max_seq_len - before) // 2)
    if period < _SHORTEST:
        return []
    rng = np.random.default_rng(_SEED)
    return [_twice(run, rng.choice(ids, period, replace=False).tolist()) for _ in range(_SEQUENCES)]


def _twice(run: LoadedRun, copy: list[int]) -> Repeated:
    roles, twice = run.config.roles, copy * 2
    before = len(roles.text_prefix)
    starts = {"decoder": (0, before), "encoder": (before, 0)}
    both = len(roles.source_start), len(roles.target_prefix)
    return Repeated(framed(run, twice, twice), len(copy), *starts.get(run.architecture, both))
