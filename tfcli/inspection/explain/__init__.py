"""A computation step by step: every matrix with its name, its formula and its shape in a lecture's notation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tfcli.records.generation import BeamTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOLE = "____"  # stands for a number that is left out
NotationName = Literal["bishop", "udl", "cs224n", "inf721", "encoder"]
# Around 0; scores, which keep their colours from step to step; shares of 1; what may be attended to (0), or not (−∞).
MatrixKind = Literal["signed", "scores", "weights", "mask"]


@dataclass(frozen=True)
class Matrix:
    """A matrix as a notation writes it: with tokens down, or across where its tokens are columns. `axes` are symbols of
    its sizes ("N", "D"). `sums` are shown beside rows or under columns, where these are distributions. −∞ stands for
    what a mask hides. One of holes has lost its numbers. Shape: values (R, C)."""

    name: str
    values: NDArray[np.float32]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    kind: MatrixKind = "signed"
    sums: Literal["rows", "columns"] | None = None
    holes: bool = False


@dataclass(frozen=True)
class Measure:
    """A number that a step comes to, and what it says.

    Attributes:
        is_residue: Whether the value is what rounding leaves of two computations that agree.
    """

    name: str
    value: float
    meaning: str
    is_residue: bool = False


@dataclass(frozen=True)
class Step:
    """One step: formula, matrices in and out, measures, a few words; or a drawing, or a listing, by its `lines`."""

    title: str
    formula: str
    matrices: tuple[Matrix, ...] = ()
    measures: tuple[Measure, ...] = ()
    note: str = ""
    lines: str = ""


@dataclass(frozen=True)
class Explanation:
    """A computation. `subtitle` says on what it is done; `slips` what the lecture prints otherwise, and why not so."""

    title: str
    subtitle: str
    notation: NotationName | None
    steps: tuple[Step, ...]
    slips: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorShape:
    """A tensor of a computation without its numbers: its axes in a notation, and how long they are."""

    name: str
    formula: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ShapeTrace:
    """Every tensor of a computation in its order."""

    title: str
    subtitle: str
    notation: NotationName
    tensors: tuple[TensorShape, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spelling:
    """How one lecture writes a positional encoding."""

    lecture: str
    notation: NotationName | None  # the name under which it can be chosen; None: of another's
    formulas: tuple[str, ...]
    joins: str
    letters: str  # what stands for position, dimension and size


@dataclass(frozen=True)
class PositionExplanation:
    """The lectures side by side, then one of them step by step."""

    spellings: tuple[Spelling, ...]
    explanation: Explanation


@dataclass(frozen=True)
class DecodingCandidate:
    """A token in one step. `logit` z is the model's, and `adjusted` z′ what the settings against repetition make of it;
    `scaled` is (z′ − max z′) / τ, None where the temperature is 0. Probabilities: `probability` of the model itself,
    then what is left after each stage, renormalised, 0 where it is ruled out: `tempered`, and `after` each filter, by
    "after_top_k", "after_top_p", "after_min_p" and whatever filter else there is. `chance` is that of the draw, which
    takes the token where its random number u lies from `begin` up to `end`: all chances stand in a row, by id."""

    token: str
    token_id: int
    logit: float
    adjusted: float
    scaled: float | None
    probability: float
    tempered: float
    after: Mapping[str, float] = field(metadata={"flat": True})
    chance: float
    begin: float
    end: float


@dataclass(frozen=True)
class DecodingStep:
    """One new token. `candidates` are the likeliest and the chosen one, the likeliest first; `others` are the further
    tokens with `rest` of the model's probability. `kept` counts the tokens that each filter leaves, by "kept_top_k" ….
    `uniform` is u, from 0 to 1; None: the best token is taken."""

    before: tuple[str, ...]
    candidates: tuple[DecodingCandidate, ...]
    others: int
    rest: float
    kept: Mapping[str, int] = field(metadata={"flat": True})
    uniform: float | None
    token: str
    token_id: int


@dataclass(frozen=True)
class DecodedPath:
    """A text with the model's probability of each of its tokens; `log_probability` is their sum in nats."""

    name: str
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    log_probability: float


@dataclass(frozen=True)
class DecodingRecord:
    """A text in the making, by a run (`source`) or a toy (None); and the same prompt, greedily and by a beam search."""

    source: str | None
    prompt: str
    vocabulary: int
    repetition_penalty: float
    no_repeat_ngram: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    steps: tuple[DecodingStep, ...]
    greedy: DecodedPath
    beam: DecodedPath
    tree: BeamTree

    @property
    def z(self) -> str:
        """What is drawn by: z′ where settings against repetition make it another number than z, else z."""
        return "z′" if self.repetition_penalty != 1 or self.no_repeat_ngram > 0 else "z"
