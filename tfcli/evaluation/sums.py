"""What a pass over a text sums up, cell by cell: the smallest stretches that are looked at apart.

Shape legend: N labels of a batch, C cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED
from tfcli.evaluation.objective import scores_of_labels
from tfcli.evaluation.placed import Placed
from tfcli.evaluation.scoring import require_tokens, scoring
from tfcli.models.transformer import Transformer


@dataclass(frozen=True, eq=False)
class Sums:
    """Of each cell: `nats` of −log p of its right tokens, `tokens` labelled, `correct` predicted first, and those of
    its labels that are the `unknown` token; `nameless` is the probability that went to ids without a token.

    Shape: each (C,)
    """

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    correct: NDArray[np.int64]
    unknown: NDArray[np.int64]
    nameless: NDArray[np.float64]

    def grouped(self, group: NDArray[np.int64], number: int) -> Sums:
        """The sums of `number` groups, cell c belonging to ``group[c]``."""
        sums = _nothing(number)
        for name, values in vars(self).items():
            np.add.at(getattr(sums, name), group, values)
        return sums

    @property
    def loss(self) -> float:
        """Nats a token, over all cells."""
        return float(self.nats.sum() / self.tokens.sum())

    @property
    def accuracy(self) -> float:
        """Share of tokens whose most probable prediction was right."""
        return float(self.correct.sum() / self.tokens.sum())


def _nothing(cells: int) -> Sums:
    (nats, nameless), (tokens, correct, unknown) = np.zeros((2, cells)), np.zeros((3, cells), np.int64)
    return Sums(nats, tokens, correct, unknown, nameless)


@torch.inference_mode()
def sum_cells(
    model: Transformer,
    batches: Iterable[Placed],
    cell_of: NDArray[np.int64] | None,
    cells: int,
    unknown: int | None,
    device: torch.device,
    nameless: Sequence[int] = (),
) -> Sums:
    """Score every labelled token once, in float32 and without dropout, in one pass.

    Args:
        cell_of: the first place of each cell, ascending; None: a place is the number of its cell.
        unknown: the id of the unknown token.
        nameless: the model's ids that no token has. They are in its softmax as the others are.

    Raises:
        UsageError: there is no label.
    """
    sums = _nothing(cells)
    with scoring(model):
        for placed in batches:
            labels = placed.batch.labels
            scored = (labels != IGNORED).ravel()
            if not scored.any():
                continue
            found = scores_of_labels(model, placed.batch, device, nameless)
            kept = found.labels != IGNORED
            places = np.broadcast_to(placed.places, labels.shape).ravel()[scored]
            where = places if cell_of is None else np.searchsorted(cell_of, places, side="right") - 1
            np.add.at(sums.nats, where, found.nats[kept].cpu().double().numpy())
            np.add.at(sums.correct, where, found.correct[kept].cpu().numpy())
            np.add.at(sums.tokens, where, 1)
            np.add.at(sums.nameless, where, found.nameless[kept].cpu().double().numpy())
            if unknown is not None:
                np.add.at(sums.unknown, where, labels.ravel()[scored] == unknown)
    require_tokens(int(sums.tokens.sum()))
    return sums
