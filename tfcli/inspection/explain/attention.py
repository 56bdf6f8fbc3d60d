"""Scaled dot-product attention and its masks, step by step."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, Measure, NotationName, Step
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import masking, of_heads, projection, projections, score_formula, scoring, split
from tfcli.inspection.explain.subject import PAIRS, Notation, Subject, notation
from tfcli.inspection.passes import record_attention
from tfcli.layers.attention import causal_mask, dot_scores, explicit_attention
from tfcli.models.transformer import Transformer

_MOST_SUMMANDS = 4


def mixing(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Weights times values."""
    mixed = subject.attention_pass.mixed
    note = _last_row(subject, heads[0], "x" if subject.is_plain else "v")
    if subject.is_plain:
        matrix = n.vectors("mixed_alone", mixed[0], subject.query_tokens)
        return Step("Weights times the input", n.formulas["mix_alone"], (matrix,), note=note)
    matrices = of_heads(subject, n, "mixed", mixed, heads, axes=("tokens", "head"))
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
    return Step(
        "Cosines beside dot products",
        "q · k = |q| |k| cos θ",
        of_heads(subject, n, "cosine", between, heads) + of_heads(subject, n, "raw", raw, heads),
        _telling(subject, between[list(heads)], heads),
        "A dot product is also large because a vector is long: the largest score need not be the largest cosine.",
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
    _, weights = explicit_attention(scaled[None], passed.value[None], None if passed.mask.all() else passed.mask)
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
    return Explanation(
        f"{_kind(subject)}, step by step",
        f"{subject.label}; heads and dimensions count from 0",
        name,
        tuple(steps),
        tuple(n.slips["attention"]) if subject.has_projections else (),
    )


def _kind(subject: Subject) -> str:
    if subject.is_cross:
        return "Cross-attention"
    kind = "Causal self-attention" if subject.attention.causal else "Self-attention"
    return kind if subject.has_projections else f"{kind} without parameters"


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
