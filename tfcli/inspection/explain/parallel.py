"""Training in parallel: one pass predicts after every token at once, each time as from its prefix alone."""

from itertools import pairwise

import torch
from torch import Tensor

from tfcli.inspection.explain.notation import PAIRS, Notation
from tfcli.inspection.explain.subject import Subject
from tfcli.models.transformer import Transformer
from tfcli.records.explain import Measure, Step

_MOST_PREFIXES = 8
"""Passes that are compared with the whole one, spread over a long text."""


def in_parallel(subject: Subject, n: Notation) -> list[Step]:
    """Row t predicts token t + 1; and the same rows from passes over every prefix."""
    tokens = subject.query_tokens
    *source, decoded = subject.inputs
    if len(tokens) < 2:
        return []
    whole = _probabilities(subject.model, source, decoded)
    apart = max(
        float((_probabilities(subject.model, source, decoded[:, : end + 1])[end] - whole[end]).abs().max())
        for end in range(0, len(tokens), -(-len(tokens) // _MOST_PREFIXES))
    )
    nexts = whole[:-1, decoded[0, 1:]]  # row t: the probability of every token that follows somewhere
    diagonal = nexts.diagonal().clamp(min=1e-30)
    pairs = ", ".join(f"{one} → {after}" for one, after in pairwise(tokens[:4]))
    sides = "Columns are inputs, rows" if n.columns_are_tokens else "Rows are inputs, columns"
    matrix = n.matrix("next", nexts, tokens[:-1], tokens[1:], PAIRS, kind="weights")
    return [
        Step(
            "All rows at once",
            "row t predicts token t + 1; loss = mean of −ln P on the diagonal",
            (matrix,),
            (
                Measure("loss of this text", float(-diagonal.log().mean()), "in nats a token"),
                Measure("largest deviation", apart, "of a prediction from a pass over its prefix alone"),
            ),
            f"{sides} what follows: {pairs}{', …' if len(tokens) > 4 else ''}\n"
            "One pass trains all of them; without the mask a row would read its own answer.",
        )
    ]


def _probabilities(model: Transformer, source: list[Tensor], decoded: Tensor) -> Tensor:
    """P of every next token.

    Shape:
        source: (1, S) of an encoder-decoder, else none; decoded: (1, T)
        returns: (T, Vocab)
    """
    return torch.softmax(model(*source, decoded).float(), dim=-1)[0]
