"""The key-value cache, batches and packed weights against reading at once.

Nothing is equal to the last digits there, and a slip could hide in the rounding; so the rounding is measured first: how
far one plain pass is from the same weights in float64. No path may be further from that pass than four times as much:
twice would be two roundings that point apart, and as much again is for those that were not met.

Shape legend: B rows, T tokens, Vocab.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.decoding import prefill
from tfcli.generation.kv_cache import DecodingCache
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.inference import prepare_for_inference
from tfcli.models.transformer import AttentionWeights, Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.model import WeightPrecision
from tfcli.verification.causality import padded_batch
from tfcli.verification.check import (
    RELATIVE,
    Finding,
    ModelInputs,
    Proof,
    Skipped,
    alike,
    at_most,
    difference,
    padded_reading,
    predict,
    proof,
    ragged,
    reading,
)
from tfcli.verification.record import Check, OwnFigure, OwnPrecision
from tfcli.verification.subject import ROWS, VerifiedRun

CHUNKED = "in chunks"
"""Read a few tokens at a time, behind those before."""


@proof(
    "cached decoding",
    "Behind a cache, token by token and in chunks, every position is predicted as when the text is read at once.",
)
@torch.inference_mode()
def cached_decoding(subject: VerifiedRun) -> Iterator[Finding]:
    """In chunks there are fewer queries than keys, and the mask has to count from the end."""
    require_generation(subject)
    for length in subject.lengths:
        read = reading(subject, length)
        at_once = predict(subject.model, read)
        for how, cuts in (("token by token", _singles(subject, length)), (CHUNKED, chunks(length))):
            pieces = torch.cat([logits for logits, _ in in_pieces(subject.model, read, cuts)], dim=1)
            for position in range(length):
                where = f"{how}, position {position} of {length}"
                yield alike(subject, pieces[:, position], at_once[:, position], where)


@proof("cross-attention kept", "The cross-attention that is kept while a target grows is that of the source itself.")
@torch.inference_mode()
def cross_attention_kept(subject: VerifiedRun) -> Iterator[Finding]:
    """Compares the attention weights of every layer, which follow from the kept keys."""
    if subject.run.architecture != "encoder-decoder":
        raise Skipped(f"cross-attention is for an encoder-decoder, and this is {_a(subject.run.architecture)}")
    for length in subject.lengths[1:]:
        read = reading(subject, length)
        fresh: AttentionWeights = {}
        predict(subject.model, read, fresh)
        pieces = in_pieces(subject.model, read, chunks(length), explicit=True)
        for (_, kept), (start, end) in zip(pieces, pairwise(chunks(length)), strict=True):
            for layer, weights in enumerate(kept["cross"]):
                where = f"layer {layer}, positions {start} to {end - 1} of {length}"
                yield alike(subject, weights, fresh["cross"][layer][:, :, start:end], where)


def require_generation(subject: VerifiedRun) -> Decoder | EncoderDecoder:
    """The model, where it generates."""
    if not isinstance(subject.model, Decoder | EncoderDecoder):
        raise Skipped("an encoder fills masks: it generates nothing token by token")
    return subject.model


def in_pieces(
    model: Transformer, read: ModelInputs, cuts: list[int], *, explicit: bool = False
) -> Iterator[tuple[Tensor, AttentionWeights]]:
    """The logits of the tokens from each cut to the next, read behind a cache; by the explicit attention with its
    weights, else by that of generation and without.

    Shape: yields (B, length of the piece, Vocab), and the weights of each kind."""
    cache = DecodingCache(model, len(read.tokens), read.tokens.shape[1])
    memory = None
    if isinstance(model, EncoderDecoder):
        assert read.source is not None
        memory = model.encode(read.source, read.mask)
    for start, end in pairwise(cuts):
        weights: AttentionWeights = {}
        collected = weights if explicit else None
        if isinstance(model, EncoderDecoder):
            assert memory is not None
            hidden = model.decode(read.tokens[:, start:end], memory, read.mask, cache=cache, weights=collected)
        else:
            assert isinstance(model, Decoder)
            hidden = model.hidden(read.tokens[:, start:end], cache=cache, weights=collected)
        yield model.head(hidden), weights


def _singles(subject: VerifiedRun, length: int) -> list[int]:
    """Cuts around every token; of a text too long for it, around as many at its two ends as are affordable."""
    at_each_end = max(1, subject.single_steps // 2)
    return [place for place in range(length + 1) if place <= at_each_end or place >= length - at_each_end]


def chunks(length: int) -> list[int]:
    """Cuts that make pieces of 1, 2, 3 … tokens."""
    cuts = [0]
    while cuts[-1] < length:
        cuts.append(min(length, cuts[-1] + len(cuts)))
    return cuts


def _a(architecture: str) -> str:
    return f"an {architecture}" if architecture == "encoder" else f"a {architecture}"


_STEPS = 6
_MOVES: Mapping[int, list[int]] = {1: [2, 0, 1], 2: [0, 2, 1, 2], 4: [1, 3]}
"""After so many tokens, which row each row becomes: all change places, one is there twice, and some are dropped."""


@dataclass(frozen=True)
class _Text:
    """A text that is read from its first token to its last; a reader begins behind `start` of them."""

    ids: list[int]
    start: int
    source: list[int] | None


@proof(
    "batched prompts",
    "Prompts of different lengths that grow side by side are predicted as each is when it is read at once and alone.",
)
def batched_prompts(subject: VerifiedRun) -> Iterator[Finding]:
    """Of an encoder-decoder, the sources have different lengths."""
    return _findings(subject, {})


@proof(
    "rows that change places",
    "Texts that change places while they grow, as beams do, go on as themselves: cache, source and padding move along.",
)
def rows_that_change_places(subject: VerifiedRun) -> Iterator[Finding]:
    """One of them is continued twice, and some are dropped."""
    return _findings(subject, _MOVES)


@torch.inference_mode()
def _findings(subject: VerifiedRun, moves: Mapping[int, list[int]]) -> Iterator[Finding]:
    generator = require_generation(subject)
    for length in sorted({min(7, subject.longest), subject.longest}):
        texts = _texts(subject, length)
        alone = [_alone(subject, text) for text in texts]
        steps = len(texts[0].ids) - texts[0].start
        prompts = [text.ids[: text.start] if text.source is None else text.source for text in texts]
        # One of the rows will be there twice.
        reader = prefill(generator, prompts, subject.roles, GenerateSection(max_new_tokens=steps), rows=ROWS + 1)
        order = list(range(len(texts)))
        for step in range(steps + 1):
            if step in moves:
                reader.select(moves[step])
                order = [order[row] for row in moves[step]]
            for row, number in enumerate(order):
                place = texts[number].start - 1 + step
                where = f"text {number + 1} of {len(texts)} in row {row + 1}, token {step} of up to {length}"
                yield alike(subject, reader.logits[row], alone[number][place], where)
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
    targets = subject.ids(min(_STEPS, length - len(prefix))).tolist()
    return [
        _Text(prefix + target, len(prefix), source)
        for target, source in zip(targets, ragged(subject.sources(room)), strict=True)
    ]


def _alone(subject: VerifiedRun, text: _Text) -> Tensor:
    """Every prediction of one text, read at once. Shape: returns (T, Vocab)."""
    device = subject.run.device
    source = None if text.source is None else torch.tensor([subject.roles.source(text.source)], device=device)
    return predict(subject.model, ModelInputs(torch.tensor([text.ids], device=device), source))[0]


_LIMIT = 1e-4
"""In float32, which is all that the packed matrices know: rounding differs by a hundredth of it at most."""


@proof("laid out for prediction", "The model as generation lays it out predicts what the trained model predicts.")
@torch.inference_mode()
def laid_out(subject: VerifiedRun) -> Iterator[Finding]:
    """In float32: its matrices are joined and packed for this machine."""
    ready = copy.deepcopy(subject.run.model)
    prepare_for_inference(ready)
    for length in subject.lengths:
        where = f"texts of {length} tokens"
        read = padded_reading(subject, length)
        yield at_most(difference(predict(ready, read), predict(subject.run.model, read)), _LIMIT, RELATIVE, where)
        if subject.run.architecture == "encoder":
            continue
        read = reading(subject, length)  # nothing is padded behind a cache
        pieces = torch.cat([logits for logits, _ in in_pieces(ready, read, chunks(length))], dim=1)
        away = difference(pieces, predict(subject.run.model, read))
        yield at_most(away, _LIMIT, RELATIVE, f"{where}, {CHUNKED}")


PATHS: tuple[Proof, ...] = (cached_decoding, batched_prompts, rows_that_change_places, padded_batch)
"""What is looked at once more: two ways to the same predictions."""

_PRECISIONS: tuple[WeightPrecision, ...] = ("float32", "bfloat16", "int8")

_ROUNDINGS = 4
_LEAST = 1e-6
"""Of the largest number: less is allowed nowhere, for a tiny model's rounding may come out even."""


@dataclass(frozen=True)
class _AsItGenerates(VerifiedRun):
    """The subject with its model laid out for prediction in a precision."""

    ready: Transformer | None = None
    allowed: float = 0.0

    @cached_property
    def model(self) -> Transformer:
        assert self.ready is not None
        return self.ready

    @property
    def limit(self) -> float:
        return self.allowed


class OwnPath:
    """The second column of a verification: made when it is first asked for, since it holds a copy a precision."""

    def __init__(self, subject: VerifiedRun) -> None:
        self._subject = subject

    def look(self, proof: Proof, check: Check) -> Check:
        """The check with the figures of each precision beside its own; failed where one of them is."""
        if proof not in PATHS or check.status == "skipped":
            return check
        own, status, reason = [], check.status, check.reason
        for measured, subject in self._subjects:
            found = proof.check(subject)
            own.append(OwnFigure(measured.precision, found.measured, found.limit))
            if found.status == "failed" and status == "passed":
                status, reason = "failed", f"in {measured.precision}: {found.reason}"
        return replace(check, own=tuple(own), status=status, reason=reason)

    @property
    def precisions(self) -> tuple[OwnPrecision, ...]:
        """What was measured of each: its rounding, and what it changes."""
        return tuple(measured for measured, _ in self._subjects)

    @cached_property
    def _subjects(self) -> list[tuple[OwnPrecision, _AsItGenerates]]:
        with torch.inference_mode():
            return [*self._made()]

    def _made(self) -> Iterator[tuple[OwnPrecision, _AsItGenerates]]:
        subject = self._subject
        if subject.precision != torch.float64:  # too large for copies, or a device without float64
            return
        read = reading(subject, subject.longest)
        exact = predict(subject.model, read)
        cuts, rounding = chunks(subject.longest), 0.0
        for precision in _PRECISIONS:
            ready = copy.deepcopy(subject.run.model)
            try:
                prepare_for_inference(ready, precision)
            except UsageError:
                continue  # this machine has no such kernel
            plain = predict(ready, read)
            if precision != "int8":  # its products are bfloat16's, and the rest is float32
                rounding = _largest(plain, self._in_float64(precision, exact))
            pieces = plain
            if subject.run.architecture != "encoder":
                pieces = torch.cat([logits for logits, _ in in_pieces(ready, read, cuts)], dim=1)
            measured = OwnPrecision(
                precision,
                away=_largest(plain, exact),
                tokens=plain[..., 0].numel(),
                other_tokens=_others(plain, exact),
                other_behind_cache=_others(pieces, plain),
            )
            allowed = max(_LEAST, _ROUNDINGS * rounding)
            yield measured, _AsItGenerates(subject.run, subject.data, subject.made_up_because, ready, allowed)

    def _in_float64(self, precision: WeightPrecision, exact: Tensor) -> Tensor:
        """What the weights, rounded as this precision rounds them, predict without any further rounding."""
        if precision == "float32":
            return exact
        rounded = copy.deepcopy(self._subject.run.model).bfloat16().double()
        return predict(rounded, reading(self._subject, self._subject.longest))


def _largest(ours: Tensor, theirs: Tensor) -> float:
    """The largest `difference` of a position."""
    return max(difference(ours[:, position], theirs[:, position]) for position in range(ours.shape[1]))


def _others(ours: Tensor, theirs: Tensor) -> int:
    """At how many places another token is the likeliest."""
    return int((ours.argmax(-1) != theirs.argmax(-1)).sum())
