"""The dot product as a measure of likeness: cosines beside scores."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.inspection.explain.notation import PAIRS, Notation
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.scores import dot_scores
from tfcli.records.explain import Measure, Step


def cosines(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """cos θ of queries and keys beside their dot products, and the pairs nearest to parallel, orthogonal, opposite."""
    passed = subject.attention_pass
    between = F.normalize(passed.query, dim=-1) @ F.normalize(passed.key, dim=-1).transpose(-2, -1)
    raw = dot_scores(passed.query, passed.key, 1.0)
    rows, columns = subject.query_tokens, subject.key_tokens
    alone = subject.attention.num_heads == 1
    matrices = [
        n.matrix(quantity, values[head], rows, columns, PAIRS, head=None if alone else head)
        for quantity, values in (("cosine", between), ("raw", raw))
        for head in heads
    ]
    note = "A dot product is also large because a vector is long: the largest score need not be the largest cosine."
    return Step(
        "Cosines beside dot products",
        "q · k = |q| |k| cos θ",
        tuple(matrices),
        _telling(subject, between[list(heads)], heads),
        note,
    )


def _telling(subject: Subject, between: Tensor, heads: Sequence[int]) -> tuple[Measure, ...]:
    """The pairs of a query and a key that come nearest to the three cases.

    Shape:
        between: (heads that are shown, T, S)
    """
    found = []
    for nearness, meaning in (
        (between, "nearest to parallel (cos θ = 1)"),
        (-between.abs(), "nearest to orthogonal (cos θ = 0)"),
        (-between, "nearest to opposite (cos θ = −1)"),
    ):
        head, query, key = (int(i) for i in torch.unravel_index(nearness.argmax(), between.shape))
        name = f"head {heads[head]}: q of {subject.query_tokens[query]}, k of {subject.key_tokens[key]}"
        found.append(Measure(name, float(between[head, query, key]), meaning))
    return tuple(found)
