"""Scaled dot-product attention and its masks, step by step."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, Matrix, Measure, NotationName, Step
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import masking, of_heads, projection, projections, score_formula, scoring, split
from tfcli.inspection.explain.subject import EXAMPLE, PAIRS, Notation, Subject, notation
from tfcli.inspection.passes import record_attention
from tfcli.layers.attention import causal_mask, dot_scores, explicit_attention

_MOST_SUMMANDS = 4


def mixing(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Weights times values, with the last mixture written out where it is short."""
    passed, head, note = subject.attention_pass, heads[0], ""
    letter = "x" if subject.is_plain else "v"
    if len(subject.key_tokens) <= _MOST_SUMMANDS:
        summands = zip(passed.weights[head, -1].tolist(), subject.key_tokens, strict=True)
        written = " + ".join(f"{weight:.3f} {letter}({token})" for weight, token in summands)
        note = f"head {head}, {subject.query_tokens[-1]}: {written}"
    if subject.is_plain:
        matrix = n.vectors("mixed_alone", passed.mixed[0], subject.query_tokens)
        return Step("Weights times the input", n.formulas["mix_alone"], (matrix,), note=note)
    matrices = of_heads(subject, n, "mixed", passed.mixed, heads, axes=("tokens", "head"))
    return Step("Weights times values", n.formulas["mix"], matrices, note=note)


def output(subject: Subject, n: Notation) -> Step:
    """All heads side by side, times W^o."""
    passed, module, tokens = subject.attention_pass, subject.attention.output, subject.query_tokens
    matrices = (
        n.vectors("joined", passed.mixed.transpose(0, 1).flatten(1), tokens, ("tokens", "joined")),
        *(projection(n, "output", module, ("joined", "model")) if isinstance(module, nn.Linear) else ()),
        n.vectors("output", passed.output, tokens),
    )
    shape = " × ".join(map(str, matrices[-1].values.shape))
    note = f"The output is {shape}, as what entered: it can be added to it, and layers can be stacked."
    if not subject.has_projections:
        return Step("Concatenate", "heads side by side, no projection behind them", matrices, note=note)
    return Step("Concatenate, and recombine", n.formulas["join"], matrices, note=note)


def cosines(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Cos θ of queries and keys beside their dot products, and the pairs nearest to parallel, orthogonal, opposite."""
    passed, found = subject.attention_pass, []
    raw = dot_scores(passed.query, passed.key, 1.0)
    between = F.normalize(passed.query, dim=-1) @ F.normalize(passed.key, dim=-1).transpose(-2, -1)
    matrices = of_heads(subject, n, "cosine", between, heads) + of_heads(subject, n, "raw", raw, heads)
    between = between[list(heads)]
    for nearness, meaning in (
        (between, "nearest to parallel (cos θ = 1)"),
        (-between.abs(), "nearest to orthogonal (cos θ = 0)"),
        (-between, "nearest to opposite (cos θ = −1)"),
    ):
        head, query, key = (int(i) for i in torch.unravel_index(nearness.argmax(), between.shape))
        name = f"head {heads[head]}: q of {subject.query_tokens[query]}, k of {subject.key_tokens[key]}"
        found.append(Measure(name, float(between[head, query, key]), meaning))
    note = "A dot product is also large because a vector is long: the largest score need not be the largest cosine."
    return Step("Cosines beside dot products", "q · k = |q| |k| cos θ", matrices, tuple(found), note)


def beside_scaled_dot(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """What the softmax makes of the same queries and keys, with this score and with the scaled dot product."""
    passed = subject.attention_pass
    scaled = dot_scores(passed.query, passed.key, subject.attention.head_dim**-0.5)
    scaled = scaled if passed.bias is None else scaled + passed.bias
    _, weights = explicit_attention(scaled[None], passed.value[None], None if passed.mask.all() else passed.mask)
    rows, columns = subject.query_tokens, subject.key_tokens
    matrices = [
        n.matrix(quantity, values[head], rows, columns, PAIRS, head=head, kind="weights", sums=True)
        for head in heads
        for quantity, values in (("weights", passed.weights), ("weights_beside", weights[0]))
    ]
    note = "Without the division scores are larger, and their weights nearer to 0 and 1."
    if subject.section.attention_score == "additive":
        note = "Additive scores stay within the sum of |u| of their head; scaled dot products have no bound."
    formula = f"{score_formula(subject, n)}   beside   {n.scores['scaled_dot']}"
    return Step("Beside scaled dot product", formula, tuple(matrices), note=note)


def superposition(subject: Subject) -> Step:
    """Weights held fast, the output is linear in the values; in X it is not, for the weights move with X."""
    weights, value = subject.attention_pass.weights, subject.attention_pass.value
    other = value.flip(1)
    linear = float((weights @ (value + other) - (weights @ value + weights @ other)).abs().max())
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


def _attend(subject: Subject, factor: float) -> Tensor:
    """The attention of X times a factor, without what its output projection adds: (T, D)."""
    passed = subject.attention_pass
    memory = passed.memory[None] * factor if subject.is_cross else None
    x = passed.x if subject.signal.added is None else passed.value_source
    output = record_attention(subject.attention, x[None] * factor, memory, subject.signal).output
    bias = getattr(subject.attention.output, "bias", None)
    return output if bias is None else output - bias


def explain_attention(
    subject: Subject, name: NotationName = "bishop", *, head: int | None = None, with_cosines: bool = False
) -> Explanation:
    """Every step of an attention, with the numbers that the model computes; without `head` those of all heads of a toy,
    of the first of a run. A UsageError where there is no such head."""
    n, heads = notation(name), subject.heads(head)
    with torch.inference_mode():
        steps = [entrance(subject, n)]
        if subject.has_projections:
            steps.append(projections(subject, n))
        if not subject.is_plain:
            steps.append(split(subject, n, heads))
        steps += scoring(subject, n, heads)
        if with_cosines:
            steps.append(cosines(subject, n, heads))
        if subject.section.attention_score in ("additive", "dot"):
            steps.append(beside_scaled_dot(subject, n, heads))
        steps.append(mixing(subject, n, heads))
        if not subject.is_plain:
            steps.append(output(subject, n))
        steps.append(superposition(subject))
    kind = "Causal self-attention" if subject.attention.causal else "Self-attention"
    if subject.is_cross:
        kind = "Cross-attention"
    elif not subject.has_projections:
        kind += " without parameters"
    slips = tuple(n.slips["attention"]) if subject.has_projections else ()
    subtitle = f"{subject.label}; heads and dimensions count from 0"
    return Explanation(f"{kind}, step by step", subtitle, name, tuple(steps), slips)


_MOST_PREFIXES = 8
"""Passes that are compared with the whole one, spread over a long text."""


def in_parallel(subject: Subject, n: Notation) -> list[Step]:
    """Row t predicts token t + 1; and the same rows from passes over every prefix."""
    tokens = subject.query_tokens
    *source, decoded = subject.inputs
    if len(tokens) < 2:
        return []

    def predicted(length: int) -> Tensor:
        """P of every next token of a prefix: (T, Vocab)."""
        return torch.softmax(subject.model(*source, decoded[:, :length]).float(), dim=-1)[0]

    whole = predicted(len(tokens))
    ends = range(0, len(tokens), -(-len(tokens) // _MOST_PREFIXES))
    apart = max(float((predicted(end + 1)[end] - whole[end]).abs().max()) for end in ends)
    nexts = whole[:-1, decoded[0, 1:]]  # row t: the probability of every token that follows somewhere
    diagonal = nexts.diagonal().clamp(min=1e-30)
    pairs = ", ".join(f"{one} → {after}" for one, after in pairwise(tokens[:4]))
    sides = "Columns are inputs, rows" if n.columns_are_tokens else "Rows are inputs, columns"
    matrix = n.matrix("next", nexts, tokens[:-1], tokens[1:], PAIRS, kind="weights")
    measures = (
        Measure("loss of this text", float(-diagonal.log().mean()), "in nats a token"),
        Measure("largest deviation", apart, "of a prediction from a pass over its prefix alone"),
    )
    note = (
        f"{sides} what follows: {pairs}{', …' if len(tokens) > 4 else ''}\n"
        "One pass trains all of them; without the mask a row would read its own answer."
    )
    formula = "row t predicts token t + 1; loss = mean of −ln P on the diagonal"
    return [Step("All rows at once", formula, (matrix,), measures, note)]


LECTURE_SCORES = ((31.0, 27.0, 22.0), (27.0, 42.0, 31.0), (22.0, 31.0, 37.0))
LECTURE_HEAD_DIM = 3
LECTURE_WEIGHTS = ((0.1, 0.0, 0.0), (0.3, 0.7, 0.0), (0.3, 0.3, 0.4))
"""INF721, lecture 17: Q Kᵀ, d_k, and the weights that it prints behind them."""
_TITLE = "Causal masking, step by step"


def explain_lecture_masking(name: NotationName = "inf721") -> Explanation:
    """INF721's integer scores, worked through with the project's own attention."""
    n, tokens, printed = notation(name), EXAMPLE.split(), torch.tensor(LECTURE_WEIGHTS)
    with torch.inference_mode():
        raw = torch.tensor(LECTURE_SCORES)[None]
        scaled = raw / LECTURE_HEAD_DIM**0.5
        mask = causal_mask(len(tokens), len(tokens))
        _, weights = explicit_attention(scaled[None], torch.eye(len(tokens))[None, None], mask)

    def matrix(quantity: str, values: Tensor, **options: Any) -> Matrix:
        return n.matrix(quantity, values, tokens, tokens, PAIRS, **options)

    score = n.scores["scaled_dot"]
    logits = f"{score} + {n.symbol('mask')}"
    divided = f"Divided by {n.root} = √{LECTURE_HEAD_DIM} = {LECTURE_HEAD_DIM**0.5:.4g}."
    both = (("weights", weights[0, 0]), ("weights_printed", printed))
    steps = (
        Step("Scores", n.scores["dot"], (matrix("raw", raw[0]),)),
        Step("Scaled", n.formulas["scaled"].format(scores=score), (matrix("scaled", scaled[0]),), note=divided),
        masking(n, scaled, mask, tokens, heads=(0,), formula=logits),
        Step(
            "Weights",
            n.formulas["weights"].format(scores=logits),
            tuple(matrix(*one, kind="weights", sums=True) for one in both),
            (Measure("printed first row, sum", float(printed[0].sum()), "a row of a softmax sums to 1"),),
            f"{n.symbol('weights')} is what these scores come to, printed is what the lecture has.",
        ),
        _row_by_row(scaled[0], weights[0, 0]),
    )
    slip = (
        "The weights printed behind these scores are not theirs: the first row sums to .1, and scores this far apart "
        "leave no weights of .3 and .4."
    )
    return Explanation(_TITLE, f"INF721's integer scores, d_k = {LECTURE_HEAD_DIM}", name, steps, (slip,))


def explain_masking(subject: Subject, name: NotationName = "bishop", *, head: int | None = None) -> Explanation:
    """The masked scores and weights of a model, and what each of its rows predicts. A UsageError where this attention
    has no mask over the future, or no such head."""
    if not subject.attention.causal:
        raise UsageError(
            f"There is no causal mask in {subject.label}: every token sees the whole text",
            "name a decoder or an encoder-decoder",
        )
    n, heads = notation(name), subject.heads(head)
    with torch.inference_mode():
        steps = [*scoring(subject, n, heads), *in_parallel(subject, n)]
    return Explanation(_TITLE, f"{subject.label}; heads count from 0", name, tuple(steps))


def _row_by_row(scaled: Tensor, weights: Tensor) -> Step:
    """Each row of the masked softmax is the softmax of the keys that it may see, alone. Shape: (T, T) both."""
    alone = [torch.softmax(scores[: row + 1], dim=0) for row, scores in enumerate(scaled)]
    apart = max(float((weights[row, : row + 1] - one).abs().max()) for row, one in enumerate(alone))
    return Step(
        "All rows at once",
        "row t of the masked softmax = softmax of its first t + 1 scores",
        measures=(Measure("largest deviation", apart, "the mask leaves each row as if the rest did not exist"),),
        note="So a whole target is trained on in one pass: row t sees the tokens up to t, and predicts the next.",
    )
