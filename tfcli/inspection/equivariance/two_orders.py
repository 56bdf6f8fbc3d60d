"""Two texts of the same tokens in another order: without positions a model cannot tell them apart (Prince 2023, section
12.3.1: "The man ate the fish", "The fish ate the man")."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from tfcli.errors import UsageError
from tfcli.inspection.equivariance.changed_model import altered
from tfcli.inspection.equivariance.deviation import movement
from tfcli.inspection.equivariance.permutations import variants
from tfcli.inspection.tower import tower
from tfcli.models.transformer import Transformer
from tfcli.records.arrays import frozen
from tfcli.records.equivariance import OrderRecord


@torch.inference_mode()
def order(
    model: Transformer, first: Sequence[int], second: Sequence[int], labels: Sequence[Sequence[str]], name: str
) -> OrderRecord:
    """Each token's output in one text beside that in the other, with positions and without, masked and not.

    Args:
        labels: of the tokens of both.

    Raises:
        UsageError: one holds a token that the other does not.
    """
    _require_same_tokens(first, second, labels)
    one = tower(model)
    texts = [torch.tensor([list(ids)], device=model.device) for ids in (first, second)]
    places = matched(first, second)
    chosen, moved, sentence = variants(model), [], []
    for variant in chosen:
        with altered(one, positions=variant.positions, masked=variant.masked):
            ours, theirs = (one.hidden(ids) for ids in texts)
        moved.append(movement(ours, theirs[torch.from_numpy(places[:, 1]).to(theirs.device)]))
        sentence.append(movement(ours.mean(dim=0), theirs.mean(dim=0)))
    return OrderRecord(
        name,
        tuple(labels[0]),
        tuple(labels[1]),
        chosen,
        frozen(places, np.int64),
        frozen(torch.stack(moved, dim=1).cpu().numpy()),
        frozen(torch.stack(sentence).cpu().numpy()),
    )


def matched(first: Sequence[int], second: Sequence[int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Where each token of the first text stands in both; equal ones in their order.

    >>> matched([7, 8, 7], [7, 7, 8]).tolist()
    [[0, 0], [1, 2], [2, 1]]

    Shape:
        returns: (T, 2)
    """
    waiting: dict[int, list[int]] = {}
    for place, token in enumerate(second):
        waiting.setdefault(token, []).append(place)
    return np.array([(place, waiting[token].pop(0)) for place, token in enumerate(first)], dtype=np.int64)


def _require_same_tokens(first: Sequence[int], second: Sequence[int], labels: Sequence[Sequence[str]]) -> None:
    for which, ids, others, names in (("first", first, second, labels[0]), ("second", second, first, labels[1])):
        more = Counter(ids) - Counter(others)
        for token, label in zip(ids, names, strict=True):
            if more[token]:
                raise UsageError(
                    f"The {which} text has the token {label!r} more often than the other",
                    "give two texts of the same tokens in another order",
                )
