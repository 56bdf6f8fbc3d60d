"""Padding checks: padding stands beside texts, and nothing reads it.

Shape legend: B rows, T tokens, S source tokens.
"""

from collections.abc import Iterator
from functools import partial

import torch

from tfcli.verification.check import Finding, alike, at_most, proof
from tfcli.verification.reading import (
    ModelInputs,
    at_text,
    embedded,
    mixed,
    other_tokens,
    padded_reading,
    predict,
    unchanged,
)
from tfcli.verification.subject import VerifiedRun


@proof("padded batch", "A text in a batch with longer ones is read as it is read alone.")
@torch.inference_mode()
def padded_batch(subject: VerifiedRun) -> Iterator[Finding]:
    """Of an encoder-decoder, the sources have different lengths."""
    for length in subject.lengths[1:]:
        read = padded_reading(subject, length)
        assert read.mask is not None
        together = predict(subject.model, read)
        for row, size in enumerate(read.mask.sum(-1).tolist()):
            one = slice(row, row + 1)
            if read.source is None:
                alone, ours = ModelInputs(read.tokens[one, :size]), together[one, :size]
            else:
                alone, ours = ModelInputs(read.tokens[one], read.source[one, :size]), together[one]
            where = f"a text of {size} tokens beside one of {read.mask.shape[1]}"
            yield alike(subject, ours, predict(subject.model, alone), where)


@proof("padding values", "Other tokens in the place of padding change no prediction, not in the last bit.")
@torch.inference_mode()
def padding_values(subject: VerifiedRun) -> Iterator[Finding]:
    """On both ways through attention."""
    for length in subject.lengths[1:]:
        read = padded_reading(subject, length)
        other = _otherwise_padded(subject, read)
        yield from unchanged(subject, read, other, partial(at_text, read=read), f"texts of up to {length} tokens")


@proof("padding gradients", "The gradient of every prediction for padding is exactly 0.")
def padding_gradients(subject: VerifiedRun) -> Iterator[Finding]:
    """Of the vectors that enter the stack."""
    for length in subject.lengths[1:]:
        read = padded_reading(subject, length)
        assert read.mask is not None
        with embedded(subject.model) as entering:
            logits = at_text(predict(subject.model, read), read)
            (gradient,) = torch.autograd.grad(mixed(logits), entering[read.padded_side])
        of_padding = gradient[~read.mask].abs()
        measured = float(of_padding.max()) if of_padding.numel() else 0.0
        yield at_most(measured, 0.0, "gradient", f"texts of up to {length} tokens")


def _otherwise_padded(subject: VerifiedRun, read: ModelInputs) -> ModelInputs:
    assert read.mask is not None
    side = read.tokens if read.source is None else read.source
    changed = torch.where(read.mask, side, other_tokens(subject, side))
    return (
        ModelInputs(changed, None, read.mask) if read.source is None else ModelInputs(read.tokens, changed, read.mask)
    )
