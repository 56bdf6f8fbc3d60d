"""Attention from tokens to output, every matrix in its place."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.inspection.attention.choice import require_place
from tfcli.inspection.explain import Explanation, Measure, NotationName, Step
from tfcli.inspection.explain.notation import PAIRS, VECTORS, Notation, notation, numbered
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import projection, projections, score_formula, scoring, slips, split
from tfcli.inspection.explain.subject import Subject
from tfcli.inspection.passes import record_attention
from tfcli.layers.attention import dot_scores, explicit_attention

_MOST_SUMMANDS = 4


def mixing(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Weights times values."""
    mixed, size = subject.attention_pass.mixed, subject.attention.head_dim
    if subject.is_plain:
        matrix = n.matrix("mixed_alone", mixed[0], subject.query_tokens, numbered(size), VECTORS)
        return Step("Weights times the input", n.formulas["mix_alone"], (matrix,), note=_last_row(subject, 0, "x"))
    alone = subject.attention.num_heads == 1
    matrices = tuple(
        n.matrix(
            "mixed",
            mixed[head],
            subject.query_tokens,
            tuple(str(head * size + i) for i in range(size)),
            ("tokens", "head"),
            head=None if alone else head,
        )
        for head in heads
    )
    note = _last_row(subject, heads[0], "v")
    return Step("Weights times values", n.formulas["mix"], matrices, note=note)


def output(subject: Subject, n: Notation) -> Step:
    """All heads side by side, times W^o."""
    passed, module = subject.attention_pass, subject.attention.output
    joined = passed.mixed.transpose(0, 1).flatten(1)
    tokens = subject.query_tokens
    matrices = (
        n.matrix("joined", joined, tokens, numbered(joined.shape[1]), ("tokens", "joined")),
        *(projection(n, "output", module, ("joined", "model")) if isinstance(module, nn.Linear) else ()),
        n.matrix("output", passed.output, tokens, numbered(passed.output.shape[1]), VECTORS),
    )
    shape = " × ".join(map(str, passed.output.T.shape if n.columns_are_tokens else passed.output.shape))
    note = f"The output is {shape}, as what entered: it can be added to it, and layers can be stacked."
    if not subject.has_projections:
        return Step("Concatenate", "heads side by side, no projection behind them", matrices, note=note)
    return Step("Concatenate, and recombine", n.formulas["join"], matrices, note=note)


def _last_row(subject: Subject, head: int, letter: str) -> str:
    """The last mixture written out, where it is short."""
    weights, tokens = subject.attention_pass.weights[head], subject.key_tokens
    if len(tokens) > _MOST_SUMMANDS:
        return ""
    summands = " + ".join(f"{w:.3f} {letter}({token})" for w, token in zip(weights[-1].tolist(), tokens, strict=True))
    return f"head {head}, {subject.query_tokens[-1]}: {summands}"


def cosines(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Cos θ of queries and keys beside their dot products, and the pairs nearest to parallel, orthogonal, opposite."""
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


def beside_scaled_dot(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """What the softmax makes of the same queries and keys, with this score and with the scaled dot product."""
    passed = subject.attention_pass
    scaled = dot_scores(passed.query, passed.key, subject.attention.head_dim**-0.5)
    scaled = scaled if passed.bias is None else scaled + passed.bias
    mask = None if passed.mask.all() else passed.mask
    _, weights = explicit_attention(scaled[None], passed.value[None], mask)
    rows, columns = subject.query_tokens, subject.key_tokens
    matrices = [
        n.matrix(quantity, values[head], rows, columns, PAIRS, head=head, kind="weights", sums=True)
        for head in heads
        for quantity, values in (("weights", passed.weights), ("weights_beside", weights[0]))
    ]
    score = subject.section.attention_score
    note = {
        "additive": "Additive scores stay within the sum of |u| of their head; scaled dot products have no bound.",
        "dot": "Without the division scores are larger, and their weights nearer to 0 and 1.",
    }[score]
    return Step(
        "Beside scaled dot product",
        f"{score_formula(subject, n)}   beside   {n.scores['scaled_dot']}",
        tuple(matrices),
        note=note,
    )


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


def explain_attention(
    subject: Subject, name: NotationName = "bishop", *, head: int | None = None, with_cosines: bool = False
) -> Explanation:
    """Every step of an attention, with the numbers that the model computes.

    Args:
        head: the one that is shown; None: all of a toy, the first of a run.
        with_cosines: cosines beside dot products, too.

    Raises:
        UsageError: there is no such head.
    """
    n, total = notation(name), subject.attention.num_heads
    require_place("head", head, total)
    heads: Sequence[int] = range(total) if head is None and subject.words is not None else (head or 0,)
    with torch.inference_mode():
        steps = _steps(subject, n, heads, with_cosines)
    return Explanation(
        f"{_kind(subject)}, step by step",
        f"{subject.label}; heads and dimensions count from 0",
        name,
        tuple(steps),
        slips(name, "attention") if subject.has_projections else (),
    )


def _steps(subject: Subject, n: Notation, heads: Sequence[int], with_cosines: bool) -> list[Step]:
    score = subject.section.attention_score
    steps = [entrance(subject, n)]
    if subject.has_projections:
        steps.append(projections(subject, n))
    if not subject.is_plain:
        steps.append(split(subject, n, heads))
    steps += scoring(subject, n, heads)
    if with_cosines:
        steps.append(cosines(subject, n, heads))
    if score in ("additive", "dot"):
        steps.append(beside_scaled_dot(subject, n, heads))
    steps.append(mixing(subject, n, heads))
    if not subject.is_plain:
        steps.append(output(subject, n))
    return [*steps, superposition(subject)]


def _kind(subject: Subject) -> str:
    if subject.is_cross:
        return "Cross-attention"
    kind = "Causal self-attention" if subject.attention.causal else "Self-attention"
    return kind if subject.has_projections else f"{kind} without parameters"
