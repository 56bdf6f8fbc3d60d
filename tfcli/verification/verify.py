"""All checks of a run, in the order in which they are shown."""

from collections.abc import Iterable

from tfcli.records.verification import Check, Verification
from tfcli.verification import (
    attention,
    batched,
    cached,
    evaluated,
    exported,
    future,
    generated,
    labels,
    laid_out,
    padding,
    resumed,
    round_trip,
    saved,
    streaming,
)
from tfcli.verification.check import Proof
from tfcli.verification.own_precision import OwnPath
from tfcli.verification.subject import Subject

OF_MODELS: tuple[Proof, ...] = (
    cached.cached_decoding,
    cached.cross_attention_kept,
    laid_out.laid_out,
    batched.batched_prompts,
    batched.rows_that_change_places,
    padding.padded_batch,
    padding.padding_values,
    padding.padding_gradients,
    future.future_values,
    future.future_gradients,
    attention.fused_attention,
    attention.row_attention,
    attention.attention_sums,
    attention.masked_weights,
    generated.beam_of_one,
    generated.scores,
    generated.same_seed,
    streaming.streaming,
    labels.labels,
    labels.loss,
)
"""Those that need a model and its tokenizer, and no run directory."""

PROOFS: tuple[Proof, ...] = (
    *OF_MODELS,
    round_trip.round_trip,
    round_trip.special_tokens_apart,
    round_trip.batches,
    round_trip.stream,
    saved.saved_and_loaded,
    saved.files_agree,
    resumed.resumed_training,
    resumed.data_order,
    exported.exported,
    evaluated.evaluation_twice,
    evaluated.evaluation_by_batches,
)


def verification(subject: Subject, checks: Iterable[Check], own: OwnPath | None = None) -> Verification:
    """The record of checks that were made."""
    run, checks = subject.run, tuple(checks)
    precisions = own.precisions if own is not None and any(check.own for check in checks) else ()
    return Verification(str(run.directory.path), run.architecture, subject.origin, checks, precisions)
