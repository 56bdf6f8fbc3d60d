"""Defects as they have been met elsewhere, to be planted for a test: each is a slip of one line."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tfcli.data import loader
from tfcli.data.batch import Batch
from tfcli.generation import beam_search, decoding, kv_cache
from tfcli.layers import attention, multi_head
from tfcli.layers import attention as masks
from tfcli.layers.attention import Span
from tfcli.models import objective
from tfcli.tokenization.labels import TokenStream

explicit, attention_mask, fused = multi_head.explicit_attention, multi_head.attention_mask, multi_head.fused_attention


def off_by_one(patch: pytest.MonkeyPatch) -> None:
    """A new token stands one place too early."""

    def span(self: kv_cache.DecodingCache, tokens: int) -> Span:
        start = max(0, self.length - 1)
        return Span(start, start + tokens, self.left)

    patch.setattr(kv_cache.DecodingCache, "span", span)


def no_offset(patch: pytest.MonkeyPatch) -> None:
    """Queries and keys are always turned as from the first position on."""

    def at(self: Any, span: Span) -> Any:
        rows = slice(0, span.end - span.start)
        return replace(self, cosines=self.cosines[rows], sines=self.sines[rows])

    patch.setattr("tfcli.layers.rotary.Rotation.at", at)


def upper_left(patch: pytest.MonkeyPatch) -> None:
    """The causal mask counts from the first key, though the queries are the last ones."""

    def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()

    patch.setattr(masks, "causal_mask", causal_mask)


def peeking(patch: pytest.MonkeyPatch) -> None:
    """Every query sees one key too many."""
    patch.setattr(masks, "causal_mask", lambda t, s, device=None: torch.ones(t, s, dtype=torch.bool).tril(s - t + 1))


def pad_attended(patch: pytest.MonkeyPatch) -> None:
    """The padding mask is forgotten."""
    patch.setattr(multi_head, "attention_mask", lambda _padding, *sizes, **how: attention_mask(None, *sizes, **how))


def faintly_masked(patch: pytest.MonkeyPatch) -> None:
    """What is masked is made improbable, not impossible, in the fast kernel."""

    def faint(*tensors: Tensor, scale: float, **how: Any) -> Tensor:
        query, key, value, *rest = tensors
        mask = masks.causal_mask(query.shape[2], key.shape[2]) if how.get("causal") else rest[0] if rest else None
        scores = query @ key.mT * scale
        return explicit(scores if mask is None else scores.masked_fill(~mask, -9.0), value)[0]

    patch.setattr(multi_head, "fused_attention", faint)


def wrong_axis(patch: pytest.MonkeyPatch) -> None:
    """Weights sum to one over the queries."""

    def transposed(scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Any:
        weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-2).nan_to_num()
        return weights @ value, weights

    patch.setattr(multi_head, "explicit_attention", transposed)


def mask_after_softmax(patch: pytest.MonkeyPatch) -> None:
    """What is masked has had its share of the sum already."""

    def late(scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Any:
        weights = scores.softmax(-1) if mask is None else scores.softmax(-1).masked_fill(~mask, 0.0)
        return weights @ value, weights

    patch.setattr(multi_head, "explicit_attention", late)


def unscaled(patch: pytest.MonkeyPatch) -> None:
    """The fast kernel divides by √Dh twice."""
    patch.setattr(multi_head, "fused_attention", lambda *qkv, scale, **how: fused(*qkv, scale=scale**2, **how))


def half_gradient(patch: pytest.MonkeyPatch) -> None:
    """The row attention's keys have a gradient without the scale."""
    backward = attention._RowAttention.backward

    def wrong(ctx: Any, gradient: Tensor) -> Any:
        query, key, *rest = backward(ctx, gradient)
        return query, key / ctx.scale, *rest

    patch.setattr(attention._RowAttention, "backward", staticmethod(wrong))


def stale_cross_attention(patch: pytest.MonkeyPatch) -> None:
    """When texts change places, their sources do not."""
    show = kv_cache.CrossAttentionCache.show
    patch.setattr(kv_cache.CrossAttentionCache, "show", lambda self, sources: show(self, sources.sort().values))


def cross_attention_of_before(patch: pytest.MonkeyPatch) -> None:
    """The keys and values of the first source are kept for all that come after it."""
    kept: list[Any] = []

    def keys_values(_self: kv_cache.CrossAttentionCache, project: Callable[[], Any]) -> Any:
        key, value = project()
        kept.append((key, value))
        return next(earlier for earlier in kept if (earlier[0].shape, earlier[0].dtype) == (key.shape, key.dtype))

    patch.setattr(kv_cache.CrossAttentionCache, "keys_values", keys_values)


def stale_rows(patch: pytest.MonkeyPatch) -> None:
    """When texts change places, what was kept of them does not."""
    patch.setattr(kv_cache.DecodingCache, "select", lambda _self, _rows: None)


def changed_batches(patch: pytest.MonkeyPatch, kind: type, change: Callable[[Batch], Batch]) -> None:
    name = "_drawn" if kind is loader.MaskedBatches else "_batch"
    made = getattr(kind, name)
    patch.setattr(kind, name, lambda self, *asked: change(made(self, *asked)))


def shifted_labels(patch: pytest.MonkeyPatch) -> None:
    """Each token is asked for where it is read."""
    changed_batches(patch, loader.CausalBatches, lambda batch: replace(batch, labels=batch.input_ids))


def shifted_twice(patch: pytest.MonkeyPatch) -> None:
    """The token after the next one is asked for."""
    changed_batches(patch, loader.CausalBatches, lambda batch: replace(batch, labels=np.roll(batch.labels, -1, axis=1)))


def last_label_wrong(patch: pytest.MonkeyPatch) -> None:
    """A window's last token is to be followed by one from its middle."""

    def wrong(batch: Batch) -> Batch:
        labels, rows = batch.labels.copy(), np.arange(len(batch.labels))
        assert batch.row_tokens is not None
        labels[rows, batch.row_tokens - 1] = batch.input_ids[rows, batch.row_tokens // 2]
        return replace(batch, labels=labels)

    changed_batches(patch, loader.CausalBatches, wrong)


def hidden_for_another(patch: pytest.MonkeyPatch) -> None:
    """Where a token is hidden, one that is hidden elsewhere is asked for."""

    def exchanged(batch: Batch) -> Batch:
        labels = batch.labels.copy()
        labels[labels != -100] = labels[labels != -100][::-1]
        return replace(batch, labels=labels)

    changed_batches(patch, loader.MaskedBatches, exchanged)


def labels_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Tokens that are not hidden are asked for as well."""

    def everywhere(batch: Batch) -> Batch:
        return replace(batch, labels=np.where(batch.labels == -100, batch.input_ids, batch.labels))

    changed_batches(patch, loader.MaskedBatches, everywhere)


def target_not_shifted(patch: pytest.MonkeyPatch) -> None:
    """The decoder reads what it is asked for."""

    def same(batch: Batch) -> Batch:
        return replace(batch, decoder_input_ids=np.where(batch.labels == -100, 0, batch.labels))

    changed_batches(patch, loader.PairBatches, same)


def loss_of_neighbours(patch: pytest.MonkeyPatch) -> None:
    """The loss compares each prediction with the label after its own."""
    labelled = objective.labelled_hidden

    def rolled(*inputs: Any) -> Any:
        hidden, labels = labelled(*inputs)
        return hidden, labels.roll(1)

    patch.setattr(objective, "labelled_hidden", rolled)


def joined_in_another_order(patch: pytest.MonkeyPatch) -> None:
    """The one matrix for queries, keys and values has keys first."""
    join = multi_head.MultiHeadAttention.join_projections

    def swapped(self: multi_head.MultiHeadAttention, pack: Any) -> None:
        self.query, self.key = self.key, self.query
        join(self, pack)

    patch.setattr(multi_head.MultiHeadAttention, "join_projections", swapped)


def laid_out_wrong_behind_a_cache(patch: pytest.MonkeyPatch) -> None:
    """A model that only predicts goes wrong where it has a cache, and nowhere else."""
    forward = multi_head.MultiHeadAttention.forward

    def wrong(self: multi_head.MultiHeadAttention, x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        is_hit = self.joined is not None and options.get("cache") is not None
        return forward(self, 1.01 * x if is_hit else x, *arguments, **options)

    patch.setattr(multi_head.MultiHeadAttention, "forward", wrong)


def one_random_stream(patch: pytest.MonkeyPatch) -> None:
    """All texts draw from the same random numbers, in the order in which they come."""
    shared = np.random.default_rng(0)
    patch.setattr(decoding, "generator", lambda *_seeds: shared)


def scores_not_summed(patch: pytest.MonkeyPatch) -> None:
    """A beam forgets the log-probabilities of its earlier tokens."""
    whole = beam_search.Hypothesis

    def forgetful(ids: Any, log_probabilities: Any, *others: Any, **places: Any) -> Any:
        return whole(ids, log_probabilities[-1:], *others, **places)

    patch.setattr(beam_search, "Hypothesis", forgetful)


def wrong_parents(patch: pytest.MonkeyPatch) -> None:
    """Beams go on in the order in which they came, whoever's cache that is."""
    read = beam_search._read

    def unmoved(reader: Any, searches: Any) -> None:
        for row, text in enumerate(text for search in searches for text in search.live):
            text.row = min(row, len(reader.logits) - 1)
        read(reader, searches)

    patch.setattr(beam_search, "_read", unmoved)


def positions_from_padding(patch: pytest.MonkeyPatch) -> None:
    """A shorter prompt counts its positions from the padding on."""
    patch.setattr(kv_cache.DecodingCache, "span", lambda self, tokens: Span(self.length, self.length + tokens))


def last_piece_lost(patch: pytest.MonkeyPatch) -> None:
    """What a stream holds back at its end is not printed."""
    patch.setattr(TokenStream, "finish", lambda _self: "")
