"""Padding stands beside texts, and nothing reads it.

Shape legend: B rows, T tokens, S source tokens.
"""

from collections.abc import Iterator

import torch

from tfcli.verification.check import Finding, alike, at_most, proof
from tfcli.verification.reading import Reading, at_text, embedded, mixed, other_tokens, padded_reading, predict
from tfcli.verification.subject import Subject


@proof("padded batch", "A text in a batch with longer ones is read as it is read alone.")
@torch.inference_mode()
def padded_batch(subject: Subject) -> Iterator[Finding]:
    """Of an encoder-decoder, the sources have different lengths."""
    for length in subject.lengths[1:]:
        read = padded_reading(subject, length)
        assert read.mask is not None
        together = predict(subject.model, read)
        for row, size in enumerate(read.mask.sum(-1).tolist()):
            one = slice(row, row + 1)
            if read.source is None:
                alone, ours = Reading(read.tokens[one, :size]), together[one, :size]
            else:
                alone, ours = Reading(read.tokens[one], read.source[one, :size]), together[one]
            where = f"a text of {size} tokens beside one of {read.mask.shape[1]}"
            yield alike(subject, ours, predict(subject.model, alone), where)


@proof("padding values", "Other tokens in the place of padding change no prediction, not in the last bit.")
@torch.inference_mode()
def padding_values(subject: Subject) -> Iterator[Finding]:
    """On both ways through attention."""
    for length in subject.lengths[1:]:
        read = padded_reading(subject, length)
        for how in ("fused attention", "explicit attention"):
            before, after = (
                at_text(predict(subject.model, one, {} if how == "explicit attention" else None), read)
                for one in (read, _otherwise_padded(subject, read))
            )
            where = f"texts of up to {length} tokens, {how}"
            yield at_most(float((after - before).abs().max()), 0.0, "logit", where)


@proof("padding gradients", "The gradient of every prediction for padding is exactly 0.")
def padding_gradients(subject: Subject) -> Iterator[Finding]:
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


def _otherwise_padded(subject: Subject, read: Reading) -> Reading:
    assert read.mask is not None
    side = read.tokens if read.source is None else read.source
    changed = torch.where(read.mask, side, other_tokens(subject, side))
    return Reading(changed, None, read.mask) if read.source is None else Reading(read.tokens, changed, read.mask)
