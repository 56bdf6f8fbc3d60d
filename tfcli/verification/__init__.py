"""Verification results: what was proved on a run, and what not."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Status = Literal["passed", "noted", "failed", "skipped"]


@dataclass(frozen=True)
class OwnFigure:
    """What a check has measured on the model as it generates, in a precision, and how much that may be."""

    precision: str
    measured: float | None
    limit: float | None


@dataclass(frozen=True)
class OwnPrecision:
    """What generating in a precision changes, which is no fault, and is not invariant. `away` is how far one pass is
    from float64, in parts of the largest number. Of `tokens` likeliest next tokens, so many are others than in float64,
    and so many are others behind a cache than read at once."""

    precision: str
    away: float
    tokens: int
    other_tokens: int
    other_behind_cache: int


@dataclass(frozen=True)
class Check:
    """One claim about a run, and whether it holds. `measured` is in `unit` and passes up to `limit`; both are None
    where the check was skipped, or failed before anything was measured. `reason` says why it was skipped, or where it
    failed; it is empty for what passed. A check that holds is noted where the checkpoint itself has a property that one
    should know, which `reason` says."""

    name: str
    claim: str
    status: Status
    measured: float | None = None
    limit: float | None = None
    unit: str = ""
    reason: str = ""
    own: tuple[OwnFigure, ...] = ()


@dataclass(frozen=True)
class Verification:
    """All checks of a run. `text` says what was read in them, and how far where the model is large."""

    json_keys: ClassVar[tuple[Any, ...]] = ("passed", ...)
    run: str
    architecture: str
    text: str
    checks: tuple[Check, ...]
    precisions: tuple[OwnPrecision, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no check failed; skipped ones do not count."""
        return all(check.status != "failed" for check in self.checks)
