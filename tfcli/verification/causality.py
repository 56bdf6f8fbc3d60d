"""Causality and padding: no prediction knows what comes after it, and nothing reads padding."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from tfcli.verification.check import Finding, ModelInputs, Skipped, VerifiedRun, at_most, leaves, mixed, predict, proof


@proof("future values")
@torch.inference_mode()
def future_values(subject: VerifiedRun) -> Iterator[Finding]:
    """Other tokens later in a text change no earlier prediction, not in the last bit."""
    _require_order(subject)
    for length in subject.lengths[1:]:
        read = subject.reading(length)
        for start in _places(length):
            tokens = read.tokens.clone()
            tokens[:, start:] = _other_tokens(subject, tokens[:, start:])
            other, before = replace(read, tokens=tokens), slice(None, start)
            where = f"tokens from position {start} of {length} on"
            yield from _unchanged(subject, read, other, lambda logits, before=before: logits[:, before], where)  # type: ignore[misc]


@proof("future gradients")
def future_gradients(subject: VerifiedRun) -> Iterator[Finding]:
    """The gradient of a prediction for every later token is exactly 0."""
    _require_order(subject)
    for length in subject.lengths[1:]:
        with leaves(subject.model) as entering:
            logits = predict(subject.model, subject.reading(length))
            for place in _places(length):
                (gradient,) = torch.autograd.grad(mixed(logits[:, place - 1]), entering["tokens"], retain_graph=True)
                later = gradient[:, place:].abs().max()
                yield at_most(float(later), 0.0, "gradient", f"the prediction at position {place - 1} of {length}")


def _require_order(subject: VerifiedRun) -> None:
    if subject.run.architecture == "encoder":
        raise Skipped("an encoder sees the whole text: nothing is future to it")


def _places(length: int) -> list[int]:
    """Where the future begins: behind the first token, in the middle, at the last one."""
    return sorted({1, length // 2, length - 1} - {0})


@proof("padded batch")
@torch.inference_mode()
def padded_batch(subject: VerifiedRun) -> Iterator[Finding]:
    """A text in a batch with longer ones is read as it is read alone."""
    for length in subject.lengths[1:]:
        read = subject.padded_reading(length)
        assert read.mask is not None
        together = predict(subject.model, read)
        for row, size in enumerate(read.mask.sum(-1).tolist()):
            one = slice(row, row + 1)
            if read.source is None:
                alone, ours = ModelInputs(read.tokens[one, :size]), together[one, :size]
            else:
                alone, ours = ModelInputs(read.tokens[one], read.source[one, :size]), together[one]
            where = f"a text of {size} tokens beside one of {read.mask.shape[1]}"
            yield subject.alike(ours, predict(subject.model, alone), where)


@proof("padding values")
@torch.inference_mode()
def padding_values(subject: VerifiedRun) -> Iterator[Finding]:
    """Other tokens in the place of padding change no prediction, not in the last bit."""
    for length in subject.lengths[1:]:
        read = subject.padded_reading(length)
        assert read.mask is not None
        side = read.tokens if read.source is None else read.source
        other = replace(read, **{read.padded_side: torch.where(read.mask, side, _other_tokens(subject, side))})
        yield from _unchanged(subject, read, other, read.at_text, f"texts of up to {length} tokens")


@proof("padding gradients")
def padding_gradients(subject: VerifiedRun) -> Iterator[Finding]:
    """The gradient of every prediction for padding is exactly 0."""
    for length in subject.lengths[1:]:
        read = subject.padded_reading(length)
        assert read.mask is not None
        with leaves(subject.model) as entering:
            logits = read.at_text(predict(subject.model, read))
            (gradient,) = torch.autograd.grad(mixed(logits), entering[read.padded_side])
        measured = gradient.masked_fill(read.mask[..., None], 0.0).abs().max()
        yield at_most(float(measured), 0.0, "gradient", f"texts of up to {length} tokens")


def _other_tokens(subject: VerifiedRun, ids: Tensor) -> Tensor:
    """Another id in every place."""
    assert subject.run.config.model.vocab_size is not None
    return (ids + 1) % subject.run.config.model.vocab_size


def _unchanged(
    subject: VerifiedRun, read: ModelInputs, other: ModelInputs, kept: Callable[[Tensor], Tensor], where: str
) -> Iterator[Finding]:
    """Reads two texts by both ways through attention; what is `kept` of their logits must be the same in every bit."""
    for how in ("fused", "explicit"):
        first, second = (kept(predict(subject.model, one, {} if how == "explicit" else None)) for one in (read, other))
        yield at_most(float((second - first).abs().max()), 0.0, "logit", f"{where}, {how} attention")
