"""How much each head of a run copies: measured on random tokens read twice, whatever text is looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.inspection.heads import statistics as measure
from tfcli.inspection.heads.repeated_tokens import Repeated, repeated_sequences
from tfcli.inspection.kinds import KINDS
from tfcli.inspection.passes import ModelPass, record_model
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun

PerHead = NDArray[np.float64]


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
