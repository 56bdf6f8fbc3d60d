"""Text that is foreign to a run: unknown tokens, pieces a word and bits per byte, held against its validation part."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tfcli.errors import BrokenInputError, Remark, UsageError, shortened
from tfcli.runs.data import read_run_data
from tfcli.runs.history import read_landmarks
from tfcli.runs.load import LoadedRun

FEWEST_WORDS = 4
"""Of a shorter text, one name decides how many pieces a word takes."""
_TIMES, _SPREADS = 2.4, 4.0
_BITS, _BITS_OF_A_TEXT = 2.0, 80.0
_LISTED = 5


@dataclass(frozen=True)
class Usual:
    """What a run's validation part is like: the share of unknown tokens, pieces a word and how far they spread, and,
    of a decoder, bits per byte; None where it is not recorded.

    `dataset` is the fingerprint of the dataset that it is a part of.
    """

    unknown: float = 0.0
    pieces: float | None = None
    spread: float = 0.0
    bits_per_byte: float | None = None
    dataset: str = ""


def usual(run: LoadedRun) -> Usual:
    """What is recorded of a run's validation part, in `data.json` and in the metrics; no dataset is opened."""
    try:
        data = read_run_data(run.directory.data)
        metrics = read_landmarks(run.directory.metrics) if run.directory.metrics.is_file() else None
    except (UsageError, BrokenInputError):  # an imported run has none; a damaged one is told where it is read
        return Usual()
    if (counts := data.validation) is None or min(counts.tokens, counts.bytes) < 1 or counts.unknown < 0:
        return Usual()
    whole = [one for one in (*metrics.validation, *metrics.whole) if one.part == "whole"] if metrics else []
    nats = [one.loss * one.scored_tokens for one in whole if one.loss is not None and one.scored_tokens]
    return Usual(
        counts.unknown / counts.tokens,
        counts.pieces_per_word(ends_of(run)),
        counts.spread,
        min(nats) / math.log(2) / counts.bytes if nats and run.architecture == "decoder" else None,
        data.fingerprint,
    )


def ends_of(run: LoadedRun) -> int:
    """Tokens that end a document of a run, or both sides of a pair."""
    return len(run.config.roles.end) * (2 if run.architecture == "encoder-decoder" else 1)


def remark_if_foreign(run: LoadedRun, text: str, bits_per_byte: float | None = None) -> bool:
    """Say by a `Remark` that a text is clearly foreign to a run; returns whether it is.

    Pieces a word are too many from the larger of 2.4 times the usual and 4 times their spread, over √words, above the
    usual, and bits per byte from 2 + 80 / bytes above theirs: both limits are wide for short texts, and measured so
    that a run's own are not told (decisions/0018).

    Args:
        bits_per_byte: where they are known; None: a decoder reads the text for them, where its tokens say nothing.
    """
    known = usual(run)
    reasons = list(_of_tokens(run, text, known))
    if not reasons and text and known.bits_per_byte is not None:
        bits = _bits_per_byte(run, text) if bits_per_byte is None else bits_per_byte
        if bits > known.bits_per_byte + _BITS + _BITS_OF_A_TEXT / len(text.encode()):
            reasons = [f"{bits:.2f} bits a byte, {known.bits_per_byte:.2f} in its validation part"]
    if reasons:
        warnings.warn(f"Foreign to {run.directory.path}: {'; '.join(reasons)}.", Remark, stacklevel=2)
    return bool(reasons)


@torch.inference_mode()
def _bits_per_byte(run: LoadedRun, text: str) -> float:
    """Of what a decoder can read at once from the beginning of a text."""
    [(ids, spans)] = run.tokenizer.encode_spans([text])
    framed = run.config.roles.prompt(ids)
    read = framed[: run.config.model.max_seq_len]
    size = len(text[: spans[len(read) - len(framed) - 1][1]].encode()) if ids else 0
    tokens = torch.tensor([read], device=run.device)
    nats = F.cross_entropy(run.model(tokens)[0, :-1].float(), tokens[0, 1:], reduction="sum")
    return float(nats) / math.log(2) / max(1, size)


def _of_tokens(run: LoadedRun, text: str, known: Usual) -> Iterator[str]:
    """What the tokenizer makes of a text that it seldom makes of the run's own."""
    tokenizer, mask = run.tokenizer, run.config.roles.mask
    if mask is not None:
        text = text.replace(tokenizer.labels([mask])[0], " ")
    [(ids, spans)] = tokenizer.encode_spans([text])
    unknown = [
        text[start:end] for token_id, (start, end) in zip(ids, spans, strict=True) if token_id == tokenizer.roles.unk
    ]
    expected = known.unknown * len(ids)
    if len(unknown) > expected + 3 * math.sqrt(expected):
        listed = list(dict.fromkeys(shortened(one.strip() or repr(one)) for one in unknown))
        more = ", …" if len(listed) > _LISTED else ""
        are = "is" if len(unknown) == 1 else "are"
        yield f"{len(unknown)} of {len(ids)} tokens {are} unknown ({', '.join(listed[:_LISTED])}{more})"
    words = len(text.split())
    if known.pieces is None or words < FEWEST_WORDS:
        return
    beyond = max(_TIMES * known.pieces, _SPREADS * known.spread) / math.sqrt(words)
    if len(ids) / words > known.pieces + beyond:
        yield f"{len(ids) / words:.1f} pieces a word, {known.pieces:.1f} in its validation part"
