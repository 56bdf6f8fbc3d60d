"""Verification of a run: all checks, in the order in which they are shown, and again in the precisions of generation.
Nothing is equal to the last digits there, and a slip could hide in the rounding; so the rounding is measured first: how
far one plain pass is from the same weights in float64. No path may be further from that pass than four times as much:
twice would be two roundings that point apart, and as much again is for those that were not met."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from tfcli import verification as facts
from tfcli.errors import UsageError
from tfcli.models.device import prepare_for_inference
from tfcli.recipe.model import WeightPrecision
from tfcli.verification import attention, cache, causality, checkpoint, export, generation, labels, tokenizer
from tfcli.verification.check import Proof, VerifiedRun, difference, predict

# fmt: off
OF_MODELS: tuple[Proof, ...] = (
    cache.cached_decoding, cache.cross_attention_kept, cache.laid_out, cache.batched_prompts,
    cache.rows_that_change_places, causality.padded_batch, causality.padding_values, causality.padding_gradients,
    causality.future_values, causality.future_gradients, attention.fused_attention, attention.row_attention,
    attention.attention_sums, attention.masked_weights, generation.beam_of_one, generation.scores,
    generation.same_seed, generation.streaming, labels.labels, labels.loss,
)
"""Those that need a model and its tokenizer, and no run directory."""

PROOFS: tuple[Proof, ...] = (
    *OF_MODELS, tokenizer.round_trip, tokenizer.special_tokens_apart, tokenizer.batches, tokenizer.stream,
    checkpoint.saved_and_loaded, checkpoint.files_agree, checkpoint.resumed_training, checkpoint.data_order,
    export.exported, labels.evaluation_twice, labels.evaluation_by_batches,
)
# fmt: on

PATHS = (cache.cached_decoding, cache.batched_prompts, cache.rows_that_change_places, causality.padded_batch)
"""What is looked at once more: two ways to the same predictions."""

_PRECISIONS: tuple[WeightPrecision, ...] = ("float32", "bfloat16", "int8")
_ROUNDINGS = 4
_LEAST = 1e-6  # of the largest number: less is allowed nowhere, for a tiny model's rounding may come out even


@dataclass
class OwnPath:
    """The second column of a verification: made when it is first asked for, since it holds a copy a precision."""

    subject: VerifiedRun

    def look(self, proof: Proof, check: facts.Check) -> facts.Check:
        """The check with the figures of each precision beside its own; failed where one of them is."""
        if proof not in PATHS or check.status == "skipped":
            return check
        for measured, subject in self._subjects:
            found = proof.check(subject)
            check = replace(check, own=(*check.own, facts.OwnFigure(measured.precision, found.measured, found.limit)))
            if found.status == "failed" and check.status == "passed":
                check = replace(check, status="failed", reason=f"in {measured.precision}: {found.reason}")
        return check

    @property
    def precisions(self) -> tuple[facts.OwnPrecision, ...]:
        """What was measured of each: its rounding, and what it changes."""
        return tuple(measured for measured, _ in self._subjects)

    @cached_property
    @torch.inference_mode()
    def _subjects(self) -> list[tuple[facts.OwnPrecision, VerifiedRun]]:
        subject, made = self.subject, list[tuple[facts.OwnPrecision, VerifiedRun]]()
        if subject.precision != torch.float64:  # too large for copies, or a device without float64
            return made
        read = subject.reading(subject.longest)
        exact = rounded = predict(subject.model, read)
        cuts, rounding = cache.chunks(subject.longest), 0.0
        for precision in _PRECISIONS:
            ready = copy.deepcopy(subject.run.model)
            try:
                prepare_for_inference(ready, precision)
            except UsageError:
                continue  # this machine has no such kernel
            plain = predict(ready, read)
            if precision == "bfloat16":  # the weights, rounded as it rounds them, and no further rounding
                rounded = predict(copy.deepcopy(subject.run.model).bfloat16().double(), read)
            if precision != "int8":  # its products are bfloat16's, and the rest is float32
                rounding = _largest(plain, rounded)
            pieces = plain if subject.run.architecture == "encoder" else cache.joined(ready, read, cuts)
            others = _others(plain, exact), _others(pieces, plain)
            measured = facts.OwnPrecision(precision, _largest(plain, exact), plain[..., 0].numel(), *others)
            made.append((measured, replace(subject, ready=ready, allowed=max(_LEAST, _ROUNDINGS * rounding))))
        return made


def _largest(ours: Tensor, theirs: Tensor) -> float:
    """The largest `difference` of a position."""
    return max(map(difference, ours.unbind(1), theirs.unbind(1)))


def _others(ours: Tensor, theirs: Tensor) -> int:
    """At how many places another token is the likeliest."""
    return int((ours.argmax(-1) != theirs.argmax(-1)).sum())


def verification(subject: VerifiedRun, checks: Iterable[facts.Check], own: OwnPath | None = None) -> facts.Verification:
    """The record of checks that were made."""
    run, checks = subject.run, tuple(checks)
    precisions = own.precisions if own is not None and any(check.own for check in checks) else ()
    return facts.Verification(str(run.directory.path), run.architecture, subject.origin, checks, precisions)
