"""Verification of a run: all checks, in the order in which they are shown."""

from collections.abc import Iterable

from tfcli.verification.attention import attention_sums, fused_attention, masked_weights, row_attention
from tfcli.verification.cache import (
    OwnPath,
    batched_prompts,
    cached_decoding,
    cross_attention_kept,
    laid_out,
    rows_that_change_places,
)
from tfcli.verification.causality import (
    future_gradients,
    future_values,
    padded_batch,
    padding_gradients,
    padding_values,
)
from tfcli.verification.check import Proof
from tfcli.verification.checkpoint import data_order, files_agree, resumed_training, saved_and_loaded
from tfcli.verification.export import exported
from tfcli.verification.generation import beam_of_one, same_seed, scores, streaming
from tfcli.verification.labels import evaluation_by_batches, evaluation_twice, labels, loss
from tfcli.verification.record import Check, Verification
from tfcli.verification.subject import VerifiedRun
from tfcli.verification.tokenizer import batches, round_trip, special_tokens_apart, stream

# fmt: off
OF_MODELS: tuple[Proof, ...] = (
    cached_decoding, cross_attention_kept, laid_out, batched_prompts, rows_that_change_places,
    padded_batch, padding_values, padding_gradients, future_values, future_gradients,
    fused_attention, row_attention, attention_sums, masked_weights,
    beam_of_one, scores, same_seed, streaming, labels, loss,
)
"""Those that need a model and its tokenizer, and no run directory."""

PROOFS: tuple[Proof, ...] = (
    *OF_MODELS, round_trip, special_tokens_apart, batches, stream, saved_and_loaded, files_agree,
    resumed_training, data_order, exported, evaluation_twice, evaluation_by_batches,
)
# fmt: on


def verification(subject: VerifiedRun, checks: Iterable[Check], own: OwnPath | None = None) -> Verification:
    """The record of checks that were made."""
    run, checks = subject.run, tuple(checks)
    precisions = own.precisions if own is not None and any(check.own for check in checks) else ()
    return Verification(str(run.directory.path), run.architecture, subject.origin, checks, precisions)
