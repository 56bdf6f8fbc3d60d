"""The key-value cache, batches and packed weights against reading at once.
Shape legend: B rows, T tokens, Vocab."""

import copy
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tfcli.generation.decoding import prefill
from tfcli.generation.kv_cache import DecodingCache
from tfcli.models.device import prepare_for_inference
from tfcli.models.transformer import AttentionWeights, Decoder, EncoderDecoder, Transformer
from tfcli.recipe.recipe import GenerateSection
from tfcli.verification.check import (
    ROWS,
    Finding,
    ModelInputs,
    Skipped,
    VerifiedRun,
    logits_of,
    predict,
    proof,
    ragged,
)

CHUNKED = "in chunks"  # read a few tokens at a time, behind those before
_STEPS = 6  # tokens that grow side by side
_MOVES: Mapping[int, list[int]] = {1: [2, 0, 1], 2: [0, 2, 1, 2], 4: [1, 3]}
"""After so many tokens, which row each row becomes: all change places, one is there twice, and some are dropped."""
_LIMIT = 1e-4  # of the packed model, in float32, which is all it knows: rounding is a hundredth of it at most


@proof("cached decoding")
@torch.inference_mode()
def cached_decoding(subject: VerifiedRun) -> Iterator[Finding]:
    """Behind a cache, token by token and in chunks, every position is predicted as when the text is read at once."""
    require_generation(subject)
    at_each_end = max(1, subject.single_steps // 2)  # of a text too long to be read whole token by token
    for length in subject.lengths:
        read = subject.reading(length)
        at_once = predict(subject.model, read)
        singles = [place for place in range(length + 1) if not at_each_end < place < length - at_each_end]
        for how, cuts in (("token by token", singles), (CHUNKED, chunks(length))):
            pieces = joined(subject.model, read, cuts)
            for position in range(length):
                where = f"{how}, position {position} of {length}"
                yield subject.alike(pieces[:, position], at_once[:, position], where)


@proof("cross-attention kept")
@torch.inference_mode()
def cross_attention_kept(subject: VerifiedRun) -> Iterator[Finding]:
    """The cross-attention that is kept while a target grows is that of the source itself."""
    if subject.run.architecture != "encoder-decoder":
        this = "an encoder" if subject.run.architecture == "encoder" else "a decoder"
        raise Skipped(f"cross-attention is for an encoder-decoder, and this is {this}")
    for length in subject.lengths[1:]:
        read = subject.reading(length)
        fresh: AttentionWeights = {}
        predict(subject.model, read, fresh)
        pieces = in_pieces(subject.model, read, chunks(length), explicit=True)
        for (_, kept), (start, end) in zip(pieces, pairwise(chunks(length)), strict=True):
            for layer, weights in enumerate(kept["cross"]):
                where = f"layer {layer}, positions {start} to {end - 1} of {length}"
                yield subject.alike(weights, fresh["cross"][layer][:, :, start:end], where)


def require_generation(subject: VerifiedRun) -> Decoder | EncoderDecoder:
    """The model, if it generates; raises Skipped if it does not."""
    if subject.model.section.head == "none":
        raise Skipped("the run has no head that predicts tokens")
    if not isinstance(subject.model, Decoder | EncoderDecoder):
        raise Skipped("an encoder fills masks: it generates nothing token by token")
    return subject.model


def joined(model: Transformer, read: ModelInputs, cuts: list[int]) -> Tensor:
    """All the logits that `in_pieces` gives, (B, T, Vocab)."""
    return torch.cat([logits for logits, _ in in_pieces(model, read, cuts)], dim=1)


def in_pieces(
    model: Any, read: ModelInputs, cuts: list[int], *, explicit: bool = False
) -> Iterator[tuple[Tensor, AttentionWeights]]:
    """The logits from each cut to the next, (B, piece, Vocab), read behind a cache; by the explicit attention with its
    weights of each kind, else by that of generation and without."""
    cache = DecodingCache(model, len(read.tokens), read.tokens.shape[1])
    memory = None if read.source is None else model.encode(read.source, read.mask)
    for start, end in pairwise(cuts):
        weights: AttentionWeights = {}
        tokens, how = read.tokens[:, start:end], {"cache": cache, "weights": weights if explicit else None}
        hidden = model.hidden(tokens, **how) if memory is None else model.decode(tokens, memory, read.mask, **how)
        yield logits_of(model, hidden), weights


def chunks(length: int) -> list[int]:
    """Cuts that make pieces of 1, 2, 3 … tokens."""
    cuts = [0]
    while cuts[-1] < length:
        cuts.append(min(length, cuts[-1] + len(cuts)))
    return cuts


class _Text(NamedTuple):
    """Read from its first token to its last; a reader begins behind `start` of them."""

    ids: list[int]
    start: int
    source: list[int] | None


@proof("batched prompts")
def batched_prompts(subject: VerifiedRun) -> Iterator[Finding]:
    """Prompts of different lengths that grow side by side are predicted as each is when it is read at once and
    alone."""
    return _findings(subject, {})


@proof("rows that change places")
def rows_that_change_places(subject: VerifiedRun) -> Iterator[Finding]:
    """Texts that change places while they grow, as beams do, go on as themselves: cache, source and padding move
    along."""
    return _findings(subject, _MOVES)


@torch.inference_mode()
def _findings(subject: VerifiedRun, moves: Mapping[int, list[int]]) -> Iterator[Finding]:
    generator = require_generation(subject)
    for length in sorted({min(7, subject.longest), subject.longest}):
        texts = _texts(subject, length)
        alone = [subject.alone(*text) for text in texts]
        steps = len(texts[0].ids) - texts[0].start
        prompts = [text.ids[: text.start] if text.source is None else text.source for text in texts]
        # One of the rows will be there twice.
        reader = prefill(generator, prompts, subject.roles, GenerateSection(max_new_tokens=steps), rows=ROWS + 1)
        order = [*range(len(texts))]
        for step in range(steps + 1):
            if step in moves:
                reader.select(moves[step])
                order = [order[row] for row in moves[step]]
            for row, number in enumerate(order):
                place = texts[number].start - 1 + step
                where = f"text {number + 1} of {len(texts)} in row {row + 1}, token {step} of up to {length}"
                yield subject.alike(reader.logits[row], alone[number][place], where)
            if step < steps:
                upcoming = [texts[number].ids[texts[number].start + step] for number in order]
                reader.read(torch.tensor(upcoming, device=subject.run.device))


def _texts(subject: VerifiedRun, length: int) -> list[_Text]:
    """Of different lengths, with as many tokens to come for each."""
    if subject.run.architecture != "encoder-decoder":
        rows = ragged(subject.ids(length))
        steps = min(_STEPS, min(map(len, rows)) - 1)
        if steps < 1:
            raise Skipped("the context has no room for prompts of different lengths")
        return [_Text(row, len(row) - steps, None) for row in rows]
    prefix, room = list(subject.roles.target_prefix), length - len(subject.roles.source(()))
    if room < 1 or length <= len(prefix):
        raise Skipped("the context has no room for a source and a target")
    pairs = zip(subject.ids(min(_STEPS, length - len(prefix))).tolist(), ragged(subject.sources(room)), strict=True)
    return [_Text(prefix + target, len(prefix), source) for target, source in pairs]


@proof("laid out for prediction")
@torch.inference_mode()
def laid_out(subject: VerifiedRun) -> Iterator[Finding]:
    """The model as generation lays it out predicts what the trained model predicts."""
    ready = copy.deepcopy(subject.run.model)
    prepare_for_inference(ready)
    for length in subject.lengths:
        where, read = f"texts of {length} tokens", subject.padded_reading(length)
        yield subject.alike(predict(ready, read), predict(subject.run.model, read), where, _LIMIT)
        if subject.run.architecture == "encoder":
            continue
        read = subject.reading(length)  # nothing is padded behind a cache
        pieces = joined(ready, read, chunks(length))
        yield subject.alike(pieces, predict(subject.run.model, read), f"{where}, {CHUNKED}", _LIMIT)
