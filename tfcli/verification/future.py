"""No prediction knows what comes after it.

Shape legend: B rows, T tokens.
"""

from collections.abc import Iterator

import torch

from tfcli.verification.check import Finding, Skipped, at_most, proof
from tfcli.verification.reading import Reading, embedded, mixed, other_tokens, predict, reading
from tfcli.verification.subject import Subject

_WAYS = ("fused attention", "explicit attention")


@proof("future values", "Other tokens later in a text change no earlier prediction, not in the last bit.")
@torch.inference_mode()
def future_values(subject: Subject) -> Iterator[Finding]:
    """On both ways through attention."""
    _require_order(subject)
    for length in subject.lengths[1:]:
        read = reading(subject, length)
        for explicit in (False, True):
            before = predict(subject.model, read, {} if explicit else None)
            for start in _places(length):
                tokens = read.tokens.clone()
                tokens[:, start:] = other_tokens(subject, tokens[:, start:])
                after = predict(subject.model, Reading(tokens, read.source, read.mask), {} if explicit else None)
                changed = (after[:, :start] - before[:, :start]).abs().max()
                where = f"tokens from position {start} of {length} on, {_WAYS[explicit]}"
                yield at_most(float(changed), 0.0, "logit", where)


@proof("future gradients", "The gradient of a prediction for every later token is exactly 0.")
def future_gradients(subject: Subject) -> Iterator[Finding]:
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


def _require_order(subject: Subject) -> None:
    if subject.run.architecture == "encoder":
        raise Skipped("an encoder sees the whole text: nothing is future to it")


def _places(length: int) -> list[int]:
    """Where the future begins: behind the first token, in the middle, at the last one."""
    return sorted({1, length // 2, length - 1} - {0})
