"""Defects planted one by one: each is caught by the check that exists for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from tfcli.models import device
from tfcli.verification.check import VerifiedRun
from tfcli.verification.verify import OF_MODELS, PROOFS

from . import defects
from .subjects import subject, verify


@dataclass(frozen=True)
class Defect:
    """What goes wrong, in which model, and which checks have to find it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: tuple[str, ...]
    model: dict[str, Any] = field(default_factory=dict)


PAIRS = {"architecture": "encoder-decoder"}

PLANTED = {
    "a new token one place too early": Defect(defects.off_by_one, ("cached decoding",)),
    "the same with learned positions": Defect(defects.off_by_one, ("cached decoding",), {"positions": "learned"}),
    "rotary offset ignored": Defect(defects.no_offset, ("cached decoding", "batched prompts")),
    "upper-left causal mask": Defect(defects.upper_left, ("cached decoding",)),
    "a mask that lets one key too many through": Defect(
        defects.peeking, ("future values", "future gradients", "masked weights"), {"positions": "alibi"}
    ),
    "faintly masked": Defect(defects.faintly_masked, ("future values", "future gradients", "fused attention")),
    "padding attended by an encoder": Defect(
        defects.pad_attended,
        ("padded batch", "padding values", "padding gradients", "masked weights"),
        {"architecture": "encoder"},
    ),
    "padding attended by a decoder": Defect(defects.pad_attended, ("batched prompts",)),
    "padding attended across": Defect(
        defects.pad_attended,
        ("padded batch", "padding values", "padding gradients"),
        PAIRS,
    ),
    "softmax over the wrong axis": Defect(defects.wrong_axis, ("attention sums to one", "fused attention")),
    "mask after the softmax": Defect(defects.mask_after_softmax, ("attention sums to one", "fused attention")),
    "scaled twice": Defect(defects.unscaled, ("fused attention",)),
    "a gradient without its scale": Defect(defects.half_gradient, ("row attention",)),
    "sources that do not move": Defect(defects.stale_cross_attention, ("rows that change places",), PAIRS),
    "the source of an earlier batch": Defect(
        defects.cross_attention_of_before,
        ("cross-attention kept", "batched prompts", "cached decoding"),
        PAIRS,
    ),
    "rows that do not move": Defect(defects.stale_rows, ("rows that change places",)),
    "labels not shifted": Defect(defects.shifted_labels, ("labels", "loss")),
    "labels shifted twice": Defect(defects.shifted_twice, ("labels", "loss")),
    "a wrong last label": Defect(defects.last_label_wrong, ("labels", "loss")),
    "another token than was hidden": Defect(defects.hidden_for_another, ("labels",), {"architecture": "encoder"}),
    "labels where nothing is hidden": Defect(defects.labels_everywhere, ("labels",), {"architecture": "encoder"}),
    "a target that is not shifted": Defect(defects.target_not_shifted, ("labels",), PAIRS),
    "the loss of neighbours": Defect(defects.loss_of_neighbours, ("loss",)),
    "queries and keys joined in the wrong order": Defect(defects.joined_in_another_order, ("laid out for prediction",)),
    "a packed model that is wrong behind a cache": Defect(
        defects.laid_out_wrong_behind_a_cache, ("laid out for prediction",)
    ),
    "one random stream for all texts": Defect(defects.one_random_stream, ("same seed",)),
    "scores that are not summed up": Defect(defects.scores_not_summed, ("beam of one", "scores")),
    "beams in the cache of others": Defect(defects.wrong_parents, ("scores",)),
    "the same across": Defect(defects.wrong_parents, ("scores",), PAIRS),
    "positions counted from the padding": Defect(
        defects.positions_from_padding, ("batched prompts", "same seed"), {"positions": "learned"}
    ),
    "the last piece lost": Defect(defects.last_piece_lost, ("streaming",)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_caught(name: str, monkeypatch: pytest.MonkeyPatch):
    planted = PLANTED[name]
    looked_at: VerifiedRun = subject(**planted.model)
    needs_packing = planted.caught_by == ("laid out for prediction",)
    if needs_packing and not device._can_pack(looked_at.run.model, torch.float32):
        pytest.skip("nothing is joined on this processor")
    wanted = [proof for proof in PROOFS if proof.name in planted.caught_by]
    assert len(wanted) == len(planted.caught_by)
    sound = [check.status for check in verify(looked_at, wanted)]
    planted.plant(monkeypatch)
    for check in verify(looked_at, wanted):
        assert check.status == "failed" and check.reason, check
        assert check.measured is not None, "caught by what it measures, not by breaking down"
    assert sound == ["passed"] * len(wanted)


@pytest.mark.parametrize("name", ["a new token one place too early", "padding attended by a decoder", "scaled twice"])
def test_a_defect_is_told_from_rounding_in_float32(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.verification.check._LARGEST_EXACT", 0)
    test_a_planted_defect_is_caught(name, monkeypatch)


def test_every_check_of_models_has_a_defect_that_it_exists_for():
    caught = {name for planted in PLANTED.values() for name in planted.caught_by}
    assert {proof.name for proof in OF_MODELS} <= caught
