"""How a check turns out, whatever happens in it."""

import math

import numpy as np
import pytest
import torch

from tfcli.errors import UsageError
from tfcli.verification.check import Finding, Proof, Skipped, VerifiedRun, at_most, difference, proof, worst
from tfcli.verification.verify import PROOFS, verification

from .subjects import subject, verify


def proof_of(finding: Finding | Exception) -> Proof:
    @proof("a name")
    def look(_subject: VerifiedRun) -> Finding:
        """A claim."""
        if isinstance(finding, Exception):
            raise finding
        return finding

    return look


@pytest.mark.parametrize(
    ("finding", "status", "reason"),
    [
        (at_most(0.5, 0.5, "nats", "there"), "passed", ""),
        (Finding(0.5, 0.5, "nats", "there", "it has so"), "noted", "it has so"),
        (Finding(0.6, 0.5, "nats", "there", "it has so"), "failed", "there"),
        (at_most(0.6, 0.5, "nats", "there"), "failed", "there"),
        (at_most(math.nan, 0.5, "nats", "there"), "failed", "there"),
        (at_most(math.inf, 0.5, "nats", "there"), "failed", "there"),
        (Skipped("it has no such thing"), "skipped", "it has no such thing"),
        (UsageError("The file is gone", "find it"), "failed", "The file is gone"),
        (IndexError("out of range\nsecond\nthird"), "failed", "IndexError: out of range second"),
    ],
    ids=[
        "at the limit",
        "noted",
        "noted above",
        "above it",
        "not a number",
        "infinite",
        "skipped",
        "refused",
        "broken",
    ],
)
def test_every_outcome_is_a_status_with_its_reason(finding: Finding | Exception, status: str, reason: str):
    check = proof_of(finding).check(subject())
    assert (check.status, check.reason) == (status, reason)
    assert (check.name, check.claim) == ("a name", "A claim.")
    assert (check.measured is None) == isinstance(finding, Exception)


def test_one_broken_check_does_not_end_the_others():
    proofs = [proof_of(ValueError("no")), proof_of(at_most(0, 0, ""))]
    found = verification(subject(), verify(subject(), proofs))
    assert [check.status for check in found.checks] == ["failed", "passed"]
    assert not found.passed


def test_skipped_checks_do_not_fail_a_verification():
    assert verification(subject(), verify(subject(), [proof_of(Skipped("no"))])).passed


def test_the_first_that_does_not_hold_is_the_worst_and_else_the_closest():
    held = [at_most(value, 1, "") for value in (0.1, 0.9, 0.2)]
    assert worst(held).measured == 0.9
    assert worst([*held, at_most(2, 1, "", "here"), at_most(3, 1, "")]).where == "here"
    assert math.isnan(worst([*held, at_most(math.nan, 1, "")]).measured)
    with pytest.raises(Skipped):
        worst([])


def test_a_difference_is_told_in_parts_of_the_largest_number():
    """The gaps are 0, 1 and 0 where the largest number is 4."""
    theirs = torch.tensor([1.0, 2.0, -4.0])
    assert difference(torch.tensor([1.0, 3.0, -4.0]), theirs) == 0.25
    assert math.isnan(difference(torch.tensor([1.0, math.nan, -4.0]), theirs))
    assert difference(torch.tensor([1.0, math.inf, -4.0]), theirs) == math.inf


def test_every_check_has_a_name_of_its_own_and_a_claim_in_a_sentence():
    names = [wanted.name for wanted in PROOFS]
    assert len(set(names)) == len(names)
    for wanted in PROOFS:
        assert wanted.claim.endswith(".") and wanted.claim[0].isupper(), wanted.name


def test_a_subject_says_what_it_reads():
    made_up = subject(max_seq_len=1024)
    assert made_up.origin == "made-up text (a test has none), up to 512 tokens of the context's 1024"
    assert made_up.lengths == (1, 2, 7, 512)
    assert not set(made_up.ids(300).unique().tolist()) & set(made_up.roles.ids())


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_a_run_with_a_dataset_reads_its_validation_part(architecture: str):
    without = subject(architecture)
    with without.dataset() as data:
        own = VerifiedRun(without.run, data)
        assert own.origin == "its own validation text"
        if architecture == "decoder":
            first = data.text("validation").padded(np.array([0]), np.array([12]), 0)[0].tolist()
        else:  # bare: without the tokens that begin and end a target
            targets = data.pairs("validation").target
            first = [token for number in range(12) for token in targets.sequence(number)[1:-1].tolist()][:12]
        assert own.ids(12)[0].tolist() == first
