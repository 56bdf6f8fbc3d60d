"""Notation of a lecture: its symbols and formulas, which `notations.toml` holds side by side, and which way round.

The numbers are the same in all of them. Ours, and those of the model's tensors, have a token a row; a notation whose
tokens are columns writes every matrix transposed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from torch import Tensor

from tfcli.inspection.explain import Matrix, MatrixKind, NotationName
from tfcli.records.arrays import frozen

Axis = Literal["tokens", "vocab", "model", "head", "heads", "joined", "shared", "inner", "one"]
"""N; |V|; D; Dh; H; H · Dh; Hkv · Dh; F; 1."""

Axes = tuple[Axis, Axis]
VECTORS: Axes = ("tokens", "model")
PAIRS: Axes = ("tokens", "tokens")
"""Of queries and keys."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Notation:
    """One lecture's way of writing.

    Args:
        axes: the symbol of every axis.
        names: the symbol of every quantity.
        formulas: what a step computes.
        scores: the formula of each attention score.
        slips: what the lecture prints otherwise than it computes, by topic.
        root: what scaled scores are divided by.
        columns_are_tokens: every matrix stands transposed.
        turned: the quantities that stand transposed.
    """

    name: NotationName
    axes: Mapping[Axis, str]
    names: Mapping[str, str]
    formulas: Mapping[str, str]
    scores: Mapping[str, str]
    slips: Mapping[Literal["attention", "layer"], Sequence[str]]
    root: str
    columns_are_tokens: bool
    turned: frozenset[str]

    def symbol(self, quantity: str, head: int | None = None) -> str:
        """How a quantity is called, of one head where it has one for each."""
        number = "" if head is None else str(head)
        sub, sup = number.translate(_SUBSCRIPTS), f"⁽{number.translate(_SUPERSCRIPTS)}⁾" if number else ""
        return self.names[quantity].format(sub=sub, sup=sup)

    def matrix(
        self,
        quantity: str,
        values: Tensor,
        rows: Sequence[str],
        columns: Sequence[str],
        axes: Axes,
        *,
        head: int | None = None,
        kind: MatrixKind = "signed",
        sums: bool = False,
    ) -> Matrix:
        """A quantity as this notation writes it, from how our tensors hold it.

        Shape:
            values: (R, C), with a token a row where rows are tokens
        """
        turned = self.columns_are_tokens or quantity in self.turned
        labels, symbols = (tuple(rows), tuple(columns)), (self.axes[axes[0]], self.axes[axes[1]])
        if turned:
            values, labels, symbols = values.T, labels[::-1], symbols[::-1]
        return Matrix(
            self.symbol(quantity, head),
            frozen(values.detach().float().cpu().numpy()),
            *labels,
            symbols,
            kind,
            ("columns" if turned else "rows") if sums else None,
        )

    def vectors(self, quantity: str, values: Tensor, tokens: Sequence[str], axes: Axes = VECTORS) -> Matrix:
        """A quantity with a vector a token, whose dimensions are numbered.

        Shape:
            values: (T, C)
        """
        return self.matrix(quantity, values, tokens, numbered(values.shape[1]), axes)


def numbered(size: int) -> tuple[str, ...]:
    """Labels of dimensions, from 0."""
    return tuple(map(str, range(size)))


@cache
def lectures() -> dict[str, Any]:
    """What `notations.toml` holds."""
    return tomllib.loads((files(__package__) / "notations.toml").read_text("utf-8"))


@cache
def notation(name: NotationName) -> Notation:
    """A lecture's notation by its name."""
    place, tables = get_args(NotationName).index(name), lectures()
    columns: dict[str, Any] = {
        table: {key: spellings[place] for key, spellings in tables[table].items()}
        for table in ("axes", "names", "formulas", "scores", "slips")
    }
    turned = frozenset({"w_output"} if name == "cs224n" else ())
    return Notation(name, **columns, root=tables["root"][place], columns_are_tokens=name == "udl", turned=turned)
