"""The causal mask step by step: scores and weights of which none looks ahead, and all rows trained in parallel."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, Measure, NotationName, Step
from tfcli.inspection.explain.notation import PAIRS, Notation, notation
from tfcli.inspection.explain.scoring import masking, scoring
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.attention import explicit_attention
from tfcli.layers.masks import causal_mask
from tfcli.models.transformer import Transformer

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


LECTURE_TOKENS = ("Lucas", "will", "travel")
LECTURE_SCORES = ((31.0, 27.0, 22.0), (27.0, 42.0, 31.0), (22.0, 31.0, 37.0))
LECTURE_HEAD_DIM = 3
LECTURE_WEIGHTS = ((0.1, 0.0, 0.0), (0.3, 0.7, 0.0), (0.3, 0.3, 0.4))
"""INF721, lecture 17: Q Kᵀ, d_k, and the weights that it prints behind them."""

_TITLE = "Causal masking, step by step"


def explain_lecture_masking(name: NotationName = "inf721") -> Explanation:
    """INF721's integer scores, worked through with the project's own attention."""
    n, tokens = notation(name), LECTURE_TOKENS
    with torch.inference_mode():
        raw = torch.tensor(LECTURE_SCORES)[None]
        scaled = raw / LECTURE_HEAD_DIM**0.5
        mask = causal_mask(len(tokens), len(tokens))
        _, weights = explicit_attention(scaled[None], torch.eye(len(tokens))[None, None], mask)
    score = n.scores["scaled_dot"]
    logits = f"{score} + {n.symbol('mask')}"
    root = f"{n.root} = √{LECTURE_HEAD_DIM} = {LECTURE_HEAD_DIM**0.5:.4g}"
    printed = torch.tensor(LECTURE_WEIGHTS)
    steps = (
        Step("Scores", n.scores["dot"], (n.matrix("raw", raw[0], tokens, tokens, PAIRS),)),
        Step(
            "Scaled",
            n.formulas["scaled"].format(scores=score),
            (n.matrix("scaled", scaled[0], tokens, tokens, PAIRS),),
            note=f"Divided by {root}.",
        ),
        masking(n, scaled, mask, tokens=tokens, heads=(0,), formula=logits),
        Step(
            "Weights",
            n.formulas["weights"].format(scores=logits),
            (
                n.matrix("weights", weights[0, 0], tokens, tokens, PAIRS, kind="weights", sums=True),
                n.matrix("weights_printed", printed, tokens, tokens, PAIRS, kind="weights", sums=True),
            ),
            (Measure("printed first row, sum", float(printed[0].sum()), "a row of a softmax sums to 1"),),
            f"{n.symbol('weights')} is what these scores come to, printed is what the lecture has.",
        ),
        _row_by_row(scaled[0], weights[0, 0], tokens),
    )
    slip = (
        "The weights printed behind these scores are not theirs: the first row sums to .1, and scores this far apart "
        "leave no weights of .3 and .4."
    )
    return Explanation(_TITLE, f"INF721's integer scores, d_k = {LECTURE_HEAD_DIM}", name, steps, (slip,))


def explain_masking(subject: Subject, name: NotationName = "bishop", *, head: int | None = None) -> Explanation:
    """The masked scores and weights of a model, and what each of its rows predicts.

    Raises:
        UsageError: this attention has no mask over the future, or there is no such head.
    """
    if not subject.attention.causal:
        raise UsageError(
            f"There is no causal mask in {subject.label}: every token sees the whole text",
            "name a decoder or an encoder-decoder",
        )
    n, heads = notation(name), subject.heads(head)
    with torch.inference_mode():
        steps = [*scoring(subject, n, heads), *in_parallel(subject, n)]
    return Explanation(_TITLE, f"{subject.label}; heads count from 0", name, tuple(steps))


def _row_by_row(scaled: Tensor, weights: Tensor, tokens: Sequence[str]) -> Step:
    """Each row of the masked softmax is the softmax of the keys that it may see, alone.

    Shape:
        scaled, weights: (T, T)
    """
    alone = [torch.softmax(scaled[row, : row + 1], dim=0) for row in range(len(tokens))]
    apart = max(float((weights[row, : row + 1] - one).abs().max()) for row, one in enumerate(alone))
    return Step(
        "All rows at once",
        "row t of the masked softmax = softmax of its first t + 1 scores",
        measures=(Measure("largest deviation", apart, "the mask leaves each row as if the rest did not exist"),),
        note="So a whole target is trained on in one pass: row t sees the tokens up to t, and predicts the next.",
    )
