"""Tiny models with lively predictions, and a reader whose predictions are written down by hand."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

ROLES = TokenRoles(pad=0, bos=1, eos=2, mask=3, unk=4)
FIRST = 5
"""The first ordinary token."""


def small_model(seed: int = 0, **section: Any) -> Transformer:
    """A model in float64, with weights so large that what it predicts depends on what it has read."""
    sizes: dict[str, Any] = {
        "vocab_size": 12,
        "max_seq_len": 16,
        "d_model": 8,
        "num_layers": 2,
        "num_heads": 2,
    }
    lively: dict[str, Any] = {"init_std": 0.7, "initialization": "gpt2"}
    return build_model(ModelSection(**(sizes | lively | section)), seed).double().eval()


@dataclass
class ScriptedReader:
    """Stands for a `DecodingState`: what follows depends on the last token alone, by a table of logits.

    Shape: table (Vocab, Vocab); start (R,)
    """

    table: Tensor
    start: Tensor
    limit: int
    model: None = None

    def __post_init__(self) -> None:
        self.logits = self.table[self.start]
        self.limits = [self.limit] * len(self.start)
        self.rows_read: list[int] = []

    def read(self, ids: Tensor) -> None:
        assert len(ids) == len(self.logits)
        self.rows_read.append(len(ids))
        self.logits = self.table[ids]

    def select(self, rows: list[int]) -> None:
        self.logits = self.logits[rows]
        self.limits = [self.limits[row] for row in rows]
