"""What a recipe's stages say while they run."""

from dataclasses import dataclass
from typing import Literal

Stage = Literal["tokenizer", "data", "training", "evaluation", "generation", "inspection"]


@dataclass(frozen=True)
class StageStarted:
    """A stage begins; `reused`: its inputs are unchanged, so that nothing has to be done."""

    stage: Stage
    detail: str
    reused: bool = False


@dataclass(frozen=True)
class StageProgress:
    """Documents and, where they are known, tokens done so far."""

    stage: Stage
    documents: int
    tokens: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """One limit of a recipe's [check] section, and what was measured."""

    name: str
    limit: float
    measured: float | None
    passed: bool
