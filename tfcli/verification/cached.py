"""KV cache: reading with a cache against reading at once.

Shape legend: B rows, T tokens, Vocab.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from tfcli.generation.caches import DecodingCache
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import AttentionWeights, Transformer
from tfcli.verification.check import Finding, Skipped, alike, proof
from tfcli.verification.reading import ModelInputs, predict, reading
from tfcli.verification.subject import VerifiedRun

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


@proof(
    "cross-attention kept",
    "The cross-attention that is kept while a target grows is that of the source itself.",
)
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


def require_generation(subject: VerifiedRun) -> None:
    """Skip what only a model that generates can do."""
    if subject.run.architecture == "encoder":
        raise Skipped("an encoder fills masks: it generates nothing token by token")


def in_pieces(
    model: Transformer, read: ModelInputs, cuts: list[int], *, explicit: bool = False
) -> Iterator[tuple[Tensor, AttentionWeights]]:
    """The logits of the tokens from each cut to the next, read behind a cache; by the explicit attention with its
    weights, else by that of generation and without.

    Shape:
        yields: (B, length of the piece, Vocab), and the weights of each kind
    """
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
