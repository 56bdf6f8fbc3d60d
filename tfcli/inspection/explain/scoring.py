"""From queries and keys to weights: scores, what they are divided by, the mask, the softmax."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.inspection.explain.notation import PAIRS, Notation, numbered
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.scores import dot_scores
from tfcli.records.explain import Matrix, MatrixKind, Step


def scoring(subject: Subject, n: Notation, heads: Sequence[int]) -> list[Step]:
    """Every step from Q and K to the weights."""
    steps = [*_scores(subject, n, heads)]
    logits = score_formula(subject, n)
    if subject.attention_pass.bias is not None:
        steps.append(_bias(subject, n, heads, logits))
        logits += f" + {n.symbol('bias')}"
    mask = subject.attention_pass.mask
    if not mask.all():
        logits += f" + {n.symbol('mask')}"
        steps.append(masking(n, subject.attention_pass.scores, mask, subject.query_tokens, heads, logits))
    weights = _each(subject, n, "weights", subject.attention_pass.weights, heads, "weights", sums=True)
    formula = n.formulas["weights_alone" if subject.is_plain else "weights"].format(scores=logits)
    over = "column" if n.columns_are_tokens else "row"
    note = f"Every weight is at least 0, and each {over} sums to 1: what its query takes of every key."
    steps.append(Step("Weights", formula, weights, note=note))
    return steps


def masking(
    n: Notation, scores: Tensor, mask: Tensor, tokens: Sequence[str], heads: Sequence[int], formula: str
) -> Step:
    """The mask as the lectures add it, 0 or −∞, and the scores with it.

    Shape:
        scores: (H, T, T); mask: (T, T), True = may attend
    """
    added = torch.zeros(mask.shape).masked_fill(~mask.cpu(), -torch.inf)
    matrices = [n.matrix("mask", added, tokens, tokens, PAIRS, kind="mask")]
    alone = len(scores) == 1
    matrices += [
        n.matrix("masked", scores[head].cpu() + added, tokens, tokens, PAIRS, head=None if alone else head)
        for head in heads
    ]
    causal = bool(mask.tril().sum() == mask.sum() == mask.shape[0] * (mask.shape[0] + 1) // 2)
    note = "−∞ stands where a key comes after its query: e^−∞ = 0, so that no weight is left for the future."
    if not causal:
        note = "−∞ stands where a key is too far from its query, or comes after it: e^−∞ = 0."
    return Step("Mask", n.formulas["masked"].format(scores=formula), tuple(matrices), note=note)


def _scores(subject: Subject, n: Notation, heads: Sequence[int]) -> list[Step]:
    passed, score = subject.attention_pass, subject.section.attention_score
    if score == "additive":
        return [_additive(subject, n, heads)]
    raw = dot_scores(passed.query, passed.key, 1.0)
    matrices = _each(subject, n, "raw_alone" if subject.is_plain else "raw", raw, heads)
    formula = n.scores["parameter_free" if subject.is_plain else "dot"]
    first = Step("Scores", formula, matrices, note=_raw_note(n, score))
    capped = subject.section.attention_softcap is not None
    if score != "scaled_dot" and not capped:
        return [first]
    scaled = subject.attention.score(passed.query[None], passed.key[None])[0]
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    title = " and ".join([*["scaled"] * (score == "scaled_dot"), *["capped"] * capped]).capitalize()
    return [first, Step(title, formula, _each(subject, n, "scaled", scaled, heads), note=_divisor(subject, n))]


def score_formula(subject: Subject, n: Notation) -> str:
    """The score as it goes on to positions, mask and softmax; with several heads, parts of X are called Q, K and V."""
    score, cap = subject.section.attention_score, subject.section.attention_softcap
    written = n.scores[score if subject.has_projections or subject.is_plain else "dot"]
    return written if cap is None else f"{cap:g} tanh(({written}) / {cap:g})"


def _additive(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Bahdanau's score: a learned vector on what query and key come to together."""
    passed, weight = subject.attention_pass, subject.attention.score.weight
    assert weight is not None
    size = subject.attention.head_dim
    labels = tuple(str(head) for head in heads)
    vectors = n.matrix("score_vector", weight[list(heads)], labels, numbered(size), ("heads", "head"))
    scores = subject.attention.score(passed.query[None], passed.key[None])[0]
    matrices = (vectors, *_each(subject, n, "scaled", scores, heads))
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    note = f"{n.symbol('score_vector')} holds a vector a head. Nothing to divide by: |tanh| stays below 1."
    if subject.section.attention_softcap is not None:
        note += f"\n{_cap(subject.section.attention_softcap)}"
    return Step("Additive scores", formula, matrices, note=note)


def _bias(subject: Subject, n: Notation, heads: Sequence[int], logits: str) -> Step:
    bias = subject.attention_pass.bias
    assert bias is not None
    matrices = _each(subject, n, "bias", bias, heads) + _each(
        subject, n, "scaled", subject.attention_pass.scores, heads
    )
    note = f"{subject.section.positions} positions add a number for the distance of query and key."
    formula = n.formulas["scaled"].format(scores=f"{logits} + {n.symbol('bias')}")
    return Step("Positions", formula, matrices, note=note)


def _each(
    subject: Subject,
    n: Notation,
    quantity: str,
    values: Tensor,
    heads: Sequence[int],
    kind: MatrixKind = "signed",
    *,
    sums: bool = False,
) -> tuple[Matrix, ...]:
    """A matrix of queries and keys for every head."""
    rows, columns = subject.query_tokens, subject.key_tokens
    alone = subject.attention.num_heads == 1
    return tuple(
        n.matrix(quantity, values[head], rows, columns, PAIRS, head=None if alone else head, kind=kind, sums=sums)
        for head in heads
    )


def _raw_note(n: Notation, score: str) -> str:
    place = "Row m, column n" if n.columns_are_tokens else "Row n, column m"
    note = f"{place}: how well the query of token n fits the key of token m."
    if score == "dot":
        note += f"\nNot divided by {n.root}: these go into the softmax as they are."
    return note


def _divisor(subject: Subject, n: Notation) -> str:
    size, total, model = subject.attention.head_dim, subject.attention.num_heads, subject.section.d_model
    notes = []
    if subject.section.attention_score == "scaled_dot":
        of = f": the size of one head, not of the model (√{model} = {model**0.5:.4g})" if total > 1 else ""
        notes.append(f"Divided by {n.root} = √{size} = {size**0.5:.4g}{of}.")
    if subject.section.attention_softcap is not None:
        notes.append(_cap(subject.section.attention_softcap))
    return "\n".join(notes)


def _cap(cap: float) -> str:
    return f"Capped: c tanh(score / c) with c = {cap:g} stays between −{cap:g} and {cap:g} (Gemma 2)."
