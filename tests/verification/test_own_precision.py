"""The second column: the model as it generates, in every precision that this machine has."""

import copy
from typing import Any

import pytest
import torch

from tests.models.small import ARCHITECTURES
from tfcli.generation.kv_cache import SelfAttentionCache
from tfcli.models.device import _can_pack, prepare_for_inference
from tfcli.verification import Check
from tfcli.verification.check import Finding, VerifiedRun, at_most, predict, proof
from tfcli.verification.verify import PATHS, OwnPath

from .subjects import subject, subject_of_preset, verify

PRECISIONS = ["float32", "bfloat16", *(["int8"] if _can_pack(subject().run.model, torch.bfloat16) else [])]


def looked_at(found: VerifiedRun) -> list[Check]:
    return [check for check in verify(found, PATHS) if check.status != "skipped"]


@pytest.mark.parametrize("preset", ["gpt2", "bert", "llama", "bart", "marian", "t5", "vaswani2017"])
def test_every_path_of_a_sound_model_stays_within_its_rounding(preset: str):
    checks = looked_at(subject_of_preset(preset))
    assert len(checks) == (1 if preset == "bert" else 4)
    for check in checks:
        assert check.status == "passed", check
        assert [one.precision for one in check.own] == PRECISIONS
        assert all(one.measured <= one.limit for one in check.own)  # type: ignore[operator]
        assert check.own[1].limit < 1, "a wrong prediction is further away"  # type: ignore[operator]


@pytest.mark.parametrize(
    "variant", [{"num_kv_heads": 1}, {"sliding_window": 5}, {"positions": "alibi"}, {"head": "none"}]
)
def test_variants_too(variant: dict[str, Any]):
    architecture = "encoder" if "head" in variant else "decoder"
    assert all(check.status == "passed" and check.own for check in looked_at(subject(architecture, **variant)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_not_invariant_is_counted(architecture: str):
    """Against a pass of a copy that is rounded here."""
    found = subject(architecture)
    read = found.reading(found.longest)
    model = copy.deepcopy(found.run.model)
    prepare_for_inference(model, "bfloat16")
    with torch.inference_mode():
        exact, rounded = predict(found.model, read), predict(model, read).double()
    [own] = [one for one in OwnPath(found).precisions if one.precision == "bfloat16"]
    gaps = (rounded - exact).abs().amax((0, 2)) / exact.abs().amax((0, 2))
    assert own.away == pytest.approx(float(gaps.max()))
    assert own.tokens == read.tokens.numel()
    assert own.other_tokens == int((rounded.argmax(-1) != exact.argmax(-1)).sum())


def test_a_slip_that_is_in_one_precision_alone_is_found(monkeypatch: pytest.MonkeyPatch):
    """Behind a cache, bfloat16 forgets the first key; the float64 copy knows nothing of it."""
    sound = SelfAttentionCache.keys_values

    def forgetful(self: SelfAttentionCache, project: Any) -> Any:
        keys, values = sound(self, project)
        if keys.dtype == torch.bfloat16 and keys.shape[2] > 1:
            values = values.clone()
            values[:, :, 0] = 0
        return keys, values

    monkeypatch.setattr(SelfAttentionCache, "keys_values", forgetful)
    [check] = verify(subject(), [PATHS[0]])
    assert check.measured is not None and check.measured < 1e-9
    assert check.status == "failed"
    assert check.reason.startswith("in bfloat16: ")


def test_other_checks_have_one_column():
    @proof("one")
    def one(subject: VerifiedRun) -> Finding:
        """One is one."""
        return at_most(0, 0, "numbers")

    assert next(iter(verify(subject(), [one]))).own == ()


def test_a_model_too_large_for_copies_has_one_column(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.verification.check._LARGEST_EXACT", 0)
    assert all(check.status == "passed" and check.own == () for check in looked_at(subject()))
