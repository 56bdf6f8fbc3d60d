"""A language of a dozen tokens, small enough to check every number of its generation by hand.

What follows depends on the last token alone. After "will", the probabilities are 8, 4, 2, 1 and 1 sixteenths: at a
temperature of ½ they are squared, 64 : 16 : 4 : 1 : 1. The likeliest first word leads into the less likely text.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tfcli.records.roles import TokenRoles

ROLES = TokenRoles(pad=0, bos=1, eos=2)
TOKENS = ("<pad>", "<s>", "</s>", *(" travel", " stay", " work", " rest", " far", " soon", " alone", " again", " home"))
PROMPT = "Lucas will"

_SIXTEENTHS: Mapping[str, Mapping[str, int]] = {
    "<s>": {" travel": 8, " stay": 4, " work": 2, " rest": 1, "</s>": 1},
    " travel": {" far": 4, " soon": 4, " alone": 3, " again": 3, "</s>": 2},
    " stay": {" home": 14, " soon": 1, "</s>": 1},
    " work": {" soon": 8, " again": 4, " alone": 2, "</s>": 2},
    " rest": {" home": 8, " soon": 4, "</s>": 4},
}


class ToyState:
    """Stands for a `Reader` at the beginning of a text of `longest` tokens at most: logits are ln of the sixteenths,
    −∞ where there are none."""

    model = None

    def __init__(self, longest: int) -> None:
        self._table = _table()
        self.logits = self._table[ROLES.bos][None]
        self.limits = [longest]

    def read(self, ids: Tensor) -> None:
        """Add one token to each text.

        Shape:
            ids: (R,)
        """
        self.logits = self._table[ids]

    def select(self, rows: list[int]) -> None:
        """Text i becomes a copy of what text `rows[i]` was."""
        self.logits, self.limits = self.logits[rows], [self.limits[row] for row in rows]


def toy_labels(ids: Sequence[int]) -> list[str]:
    """The tokens of ids."""
    return [TOKENS[token] for token in ids]


def _table() -> Tensor:
    """Shape: returns (Vocab, Vocab), row i what may follow token i; the end follows wherever nothing else does."""
    rows = []
    for token in TOKENS:
        shares = _SIXTEENTHS.get(token, {"</s>": 16})
        rows.append([math.log(shares[other]) if other in shares else -math.inf for other in TOKENS])
    return torch.tensor(rows)
