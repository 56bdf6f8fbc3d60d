"""Causality: no prediction knows what comes after it.

Shape legend: B rows, T tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch

from tfcli.verification.check import Finding, Skipped, at_most, proof
from tfcli.verification.reading import embedded, mixed, other_tokens, predict, reading, unchanged
from tfcli.verification.subject import VerifiedRun


@proof("future values", "Other tokens later in a text change no earlier prediction, not in the last bit.")
@torch.inference_mode()
def future_values(subject: VerifiedRun) -> Iterator[Finding]:
    """On both ways through attention."""
    _require_order(subject)
    for length in subject.lengths[1:]:
        read = reading(subject, length)
        for start in _places(length):
            tokens = read.tokens.clone()
            tokens[:, start:] = other_tokens(subject, tokens[:, start:])
            other, before = replace(read, tokens=tokens), slice(None, start)
            where = f"tokens from position {start} of {length} on"
            yield from unchanged(subject, read, other, lambda logits, before=before: logits[:, before], where)  # type: ignore[misc]


@proof("future gradients", "The gradient of a prediction for every later token is exactly 0.")
def future_gradients(subject: VerifiedRun) -> Iterator[Finding]:
    """Of the vectors that enter the stack; training would learn to look ahead through any that is not 0."""
    _require_order(subject)
    for length in subject.lengths[1:]:
        read = reading(subject, length)
        with embedded(subject.model) as entering:
            logits = predict(subject.model, read)
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
