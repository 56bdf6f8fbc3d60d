"""Nothing is reported where nothing is wrong."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models.small import ARCHITECTURES
from tests.models.strategies import sections
from tfcli.recipe.model import ModelSection
from tfcli.verification.check import VerifiedRun
from tfcli.verification.verify import OF_MODELS

from .subjects import subject, subject_of_preset, verify


def failed(looked_at: VerifiedRun) -> list[Any]:
    return [check for check in verify(looked_at, OF_MODELS) if check.status == "failed"]


@pytest.mark.parametrize("preset", ["gpt2", "bert", "llama", "bart", "marian", "t5", "vaswani2017"])
def test_presets_are_sound(preset: str):
    assert failed(subject_of_preset(preset)) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"num_kv_heads": 1},
        {"positions": "alibi"},
        {"sliding_window": 5},
        {"sliding_window": 3, "architecture": "encoder"},
        {"sliding_window": 2, "architecture": "encoder-decoder", "num_kv_heads": 1},
        {"attention_score": "additive", "positions": "none"},
        {"max_seq_len": 2},
        {"max_seq_len": 3, "architecture": "encoder-decoder"},
        {"algorithm": "word"},
        {"algorithm": "unigram", "architecture": "encoder-decoder"},
        {"head": "none", "architecture": "encoder"},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_variants_are_sound(settings: dict[str, Any]):
    assert failed(subject(**settings)) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_models_too_large_for_float64_are_sound_too(architecture: str, monkeypatch: pytest.MonkeyPatch):
    """They are read in float32, where rounding is larger and so is what is allowed, and not as far."""
    monkeypatch.setattr("tfcli.verification.check._LARGEST_EXACT", 0)
    monkeypatch.setattr("tfcli.verification.check._WORK", 8)
    looked_at = subject(architecture)
    assert looked_at.model is looked_at.run.model
    assert looked_at.origin == "made-up text (a test has none), up to 8 tokens of the context's 24, in float32"
    assert failed(looked_at) == []


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_any_model_is_sound(section: ModelSection):
    settings = {name: getattr(section, name) for name in section.__dataclass_fields__ if name != "vocab_size"}
    assert failed(subject(**settings)) == []


def test_what_cannot_apply_is_skipped_with_its_reason():
    skipped = {check.name: check.reason for check in verify(subject("encoder"), OF_MODELS) if check.status == "skipped"}
    assert skipped["cached decoding"] == "an encoder fills masks: it generates nothing token by token"
    assert {"beam of one", "same seed", "streaming", "future values", "cross-attention kept"} < set(skipped)
    assert all(skipped.values())
