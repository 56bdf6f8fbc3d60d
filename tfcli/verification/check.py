"""Checks and their findings: how a check is written.

A function that measures something on a subject and returns a `Finding`, or yields several of which the worst counts,
under the name and the claim that are shown:

    @proof("beam of one", "A beam of 1 finds the text of greedy decoding.")
    def beam_of_one(subject: VerifiedRun) -> Finding:
        if subject.run.architecture == "encoder":
            raise Skipped("an encoder fills masks: it has no beam")
        ...
        return at_most(different, 0, "tokens")
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from tfcli.errors import TfcliError, first_lines
from tfcli.records.verification import Check
from tfcli.verification.subject import VerifiedRun

RELATIVE = "of the largest number"
"""The unit of `difference`."""


class Skipped(Exception):
    """Raised by a check that cannot apply to a run, with the reason in words."""


@dataclass(frozen=True)
class Finding:
    """What a check has measured. It holds where `measured` is a number and not above `limit`.

    `where` says what was looked at when the worst was found; it is shown where the check fails. `note` is a property of
    the checkpoint that the run was made from, in words, which is no slip of tfcli's.
    """

    measured: float
    limit: float
    unit: str
    where: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Not a number is a failure."""
        return self.measured <= self.limit


@dataclass(frozen=True)
class Proof:
    """A claim and the function that looks whether it holds."""

    name: str
    claim: str
    look: Callable[[VerifiedRun], Finding | Iterable[Finding]]

    def check(self, subject: VerifiedRun) -> Check:
        """Look. Whatever goes wrong on the way is a failure of the check, and ends no other."""
        try:
            found = self.look(subject)
            finding = found if isinstance(found, Finding) else worst(found)
        except Skipped as skipped:
            return Check(self.name, self.claim, "skipped", reason=str(skipped))
        except TfcliError as error:
            return Check(self.name, self.claim, "failed", reason=error.problem)
        except Exception as error:
            return Check(self.name, self.claim, "failed", reason=f"{type(error).__name__}: {first_lines(error)}")
        return Check(
            self.name,
            self.claim,
            "failed" if not finding.holds else "noted" if finding.note else "passed",
            measured=finding.measured,
            limit=finding.limit,
            unit=finding.unit,
            reason=finding.note if finding.holds else finding.where,
        )


def proof(name: str, claim: str) -> Callable[[Callable[[VerifiedRun], Finding | Iterable[Finding]]], Proof]:
    """Make a function a `Proof`."""
    return lambda look: Proof(name, claim, look)


def at_most(measured: float, limit: float, unit: str, where: str = "") -> Finding:
    """One number and its limit."""
    return Finding(float(measured), float(limit), unit, where)


def worst(findings: Iterable[Finding]) -> Finding:
    """The first finding that does not hold, else the one closest to its limit.

    Raises:
        Skipped: there is none.
    """
    closest = None
    for finding in findings:
        if not finding.holds:
            return finding
        if closest is None or finding.measured > closest.measured:
            closest = finding
    if closest is None:
        raise Skipped("there was nothing to compare")
    return closest


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors, in parts of the largest number in the second; NaN where any is.

    Shape:
        ours, theirs: the same
    """
    assert ours.shape == theirs.shape, f"shapes {tuple(ours.shape)} and {tuple(theirs.shape)}"
    if not ours.numel():
        return 0.0
    ours, theirs = ours.cpu().double(), theirs.cpu().double()  # some devices have no float64
    gap = (ours - theirs).abs().max()
    scale = theirs.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float(gap / scale)


def alike(subject: VerifiedRun, ours: Tensor, theirs: Tensor, where: str) -> Finding:
    """Two ways to the same numbers.

    Shape:
        ours, theirs: the same
    """
    return at_most(difference(ours, theirs), subject.limit, RELATIVE, where)


def same_bits(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding:
    """How many numbers differ in any bit: no rounding is forgiven, NaN equals itself, and 0 is not −0.

    A tensor that one side lacks differs in all of its numbers, and so does one of another shape or type.
    """
    apart = {name: _apart(ours.get(name), theirs.get(name)) for name in dict.fromkeys(chain(theirs, ours))}
    first = next((name for name, count in apart.items() if count), "")
    return at_most(sum(apart.values()), 0, "numbers", f"the first are in {first}" if first else "")


def _apart(ours: Tensor | None, theirs: Tensor | None) -> int:
    if ours is None or theirs is None:
        present = theirs if ours is None else ours
        assert present is not None
        return present.numel()
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(ours.numel(), theirs.numel())
    if not ours.numel():
        return 0
    bits, others = (tensor.detach().cpu().contiguous().view(-1).view(torch.uint8) for tensor in (ours, theirs))
    return int((bits != others).view(ours.numel(), -1).any(-1).sum())
