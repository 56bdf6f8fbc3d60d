"""In what attention is linear and in what it is not, tried with numbers: f(a + b) beside f(a) + f(b)."""

import torch

from tfcli.inspection.explain.subject import Subject
from tfcli.inspection.passes import record_attention
from tfcli.records.explain import Measure, Step


def superposition(subject: Subject) -> Step:
    """Weights held fast, the output is linear in the values; in X it is not, for the weights move with X.

    Bishop calls the output a linear transformation, Prince the mechanism nonlinear: each is right about one of these.
    """
    passed = subject.attention_pass
    other = passed.value.flip(1)
    of_sum = passed.weights @ (passed.value + other)
    apart = passed.weights @ passed.value + passed.weights @ other
    linear = float((of_sum - apart).abs().max())
    nonlinear = float((_attend(subject, 2.0) - 2.0 * _attend(subject, 1.0)).abs().max())
    return Step(
        "Linear in V, not in X",
        "f(V₁ + V₂) − f(V₁) − f(V₂), weights held fast   f(2X) − 2 f(X), weights computed anew",
        measures=(
            Measure("in V, largest deviation", linear, "rounding alone: linear"),
            Measure("in X, largest deviation", nonlinear, "the weights change with X: not linear"),
        ),
        note="Bishop calls the output linear, UDL the mechanism nonlinear: of the values, and of the input.",
    )


def _attend(subject: Subject, factor: float) -> torch.Tensor:
    """The attention of X times a factor, without what its output projection adds.

    Shape:
        returns: (T, D)
    """
    passed = subject.attention_pass
    memory = passed.memory[None] * factor if subject.is_cross else None
    added = subject.signal.added
    x = passed.x if added is None else passed.value_source
    output = record_attention(subject.attention, x[None] * factor, memory, subject.signal).output
    bias = getattr(subject.attention.output, "bias", None)
    return output if bias is None else output - bias
