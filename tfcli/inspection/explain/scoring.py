"""Attention scores and weights step by step: projections, heads, score, positions, mask and softmax."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tfcli.inspection.explain import Matrix, Step
from tfcli.inspection.explain.subject import PAIRS, Axes, Notation, Subject, lectures, numbered
from tfcli.layers.attention import dot_scores

QUANTITIES = ("query", "key", "value")


def projections(subject: Subject, n: Notation, head: int) -> Step:
    """Q, K and V of one head, and the matrices that they are projected with; cut out of X where there are none."""
    attention, learned, made = subject.attention, list[Matrix](), list[Matrix]()
    for quantity in QUANTITIES:
        values, module = getattr(subject.attention_pass, quantity)[head], getattr(attention, quantity)
        axis, size, shared = "value" if quantity == "value" else "head", values.shape[1], quantity != "query"
        first = head // (attention.num_heads // attention.num_kv_heads if shared else 1) * size
        columns = numbered(size, first)
        if subject.has_projections:
            weight, rows = module.weight[first : first + size].T, numbered(module.in_features)
            learned.append(n.matrix(f"w_{quantity}", weight, rows, columns, ("model", axis), head=head))
            if module.bias is not None:
                bias = module.bias[None, first : first + size]
                learned.append(n.matrix(f"b_{quantity}", bias, ("1",), columns, ("one", axis), head=head))
        tokens, length = (subject.key_tokens, subject.pairs[1]) if shared else (subject.query_tokens, "tokens")
        made.append(n.matrix(quantity, values, tokens, columns, (length, axis), head=head))
    if not subject.has_projections:
        formula = f"no projections: Q, K and V are cut out of {n.symbol('input')} itself"
        return Step("Heads", formula, tuple(made), note="\n".join(_shares(subject, n, head)))
    formula = n.projected("project_heads" if attention.num_heads > 1 else "project")
    return Step("Queries, keys and values", formula, (*learned, *made), note=_note(subject, n, head))


def transposed(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> Matrix:
    """The matrix of a linear map as the lectures have it, (in, out); PyTorch keeps it as (out, in)."""
    return n.vectors(quantity, module.weight.T, numbered(module.in_features), axes)


def of_heads(
    subject: Subject, n: Notation, quantity: str, values: Tensor, heads: Sequence[int], *, axis: str = "", **how: Any
) -> tuple[Matrix, ...]:
    """A matrix for every head, with its number where there are several: of queries and keys, (H, T, S), or vectors of
    queries along an `axis`, (H, T, Dh), whose dimensions are numbered through all heads."""
    size, rows, axes = values.shape[2], subject.query_tokens, ("tokens", axis) if axis else subject.pairs
    columns = [numbered(size, head * size) if axis else subject.key_tokens for head in heads]
    of = zip(heads, columns, strict=True)
    return tuple(n.matrix(quantity, values[head], rows, own, axes, head=head, **how) for head, own in of)


def _shares(subject: Subject, n: Notation, head: int) -> list[str]:
    """What of all columns a head has, and how many those are."""
    total, size, model = subject.attention.num_heads, subject.attention_pass.query.shape[2], subject.section.d_model
    if total == 1:
        return []
    part, columns = n.axes["head"], "rows" if n.columns_are_tokens else "columns"
    why = f"a head has a size of its own: {part} = {size}, and {n.axes['model']} = {model}."
    if total * size == model:
        why = f"{part} = {n.axes['model']} / {n.axes['heads']} = {model} / {total} = {size}."
    of_all = f"{columns} {head * size} to {head * size + size - 1} of all {total * size}"
    shown = [] if subject.vocabulary is None else ["Steps are those of this head; weights and outputs those of all."]
    return [f"Head {head + 1} of {total}: {of_all}, for {why}", *shown]


def _note(subject: Subject, n: Notation, head: int) -> str:
    section, attention, notes = subject.section, subject.attention, _shares(subject, n, head)
    if section.attention_bias and n.name != "udl":
        notes.append(f"A bias is added to every row: {', '.join(n.symbol(f'b_{one}', head) for one in QUANTITIES)}.")
    if not section.attention_bias and n.name == "udl":
        notes.append("Here every β is 0 (model.attention_bias = false; a toy draws some with --bias).")
    if (kv := attention.num_kv_heads) != attention.num_heads:
        notes.append(f"{attention.num_heads} heads of queries share {kv} of keys and values, repeated here.")
    if section.query_key_norm:
        notes.append("Queries and keys are normalised a head at a time after the projection.")
    if subject.signal.rotation is not None:
        notes.append("Rotary positions turn queries and keys after the projection: these are turned.")
    return "\n".join(notes)


def scoring(subject: Subject, n: Notation, head: int, heads: Sequence[int]) -> list[Step]:
    """Every step from Q and K of a head to its weights, and to those of `heads`."""
    steps, logits, passed = _scores(subject, n, head), score_formula(subject, n), subject.attention_pass
    if passed.bias is not None:
        logits += f" + {n.symbol('bias')}"
        matrices = of_heads(subject, n, "bias", passed.bias, [head], kind="scores")
        matrices += of_heads(subject, n, "scaled", passed.scores, [head], kind="scores")
        note = f"{subject.section.positions} positions add a number for the distance of query and key."
        steps.append(Step("Positions", n.formulas["scaled"].format(scores=logits), matrices, note=note))
    if not passed.mask.all():
        logits += f" + {n.symbol('mask')}"
        formula, tokens = n.formulas["masked"].format(scores=logits), subject.query_tokens
        steps.append(masking(n, passed.scores[head], passed.mask, tokens, formula=formula, head=head))
    weights = of_heads(subject, n, "weights", passed.weights, heads, kind="weights", sums=True)
    formula = n.formulas["weights_alone" if subject.is_plain else "weights"].format(scores=logits)
    note = f"Every weight is at least 0, and each {n.line} sums to 1: what its query takes of every key."
    steps.append(Step("Weights", formula, weights, note=note))
    return steps


def masking(
    n: Notation, scores: Tensor, mask: Tensor, tokens: Sequence[str], formula: str, quantity: str = "masked", **of: Any
) -> Step:
    """The mask as added, 0 or −∞, and scores with it, a `quantity` of a head or none. Shape: scores, mask (T, T)."""
    added = torch.zeros(mask.shape).masked_fill(~mask.cpu(), -torch.inf)
    matrices = (
        n.matrix("mask", added, tokens, tokens, PAIRS, kind="mask"),
        n.matrix(quantity, scores.cpu() + added, tokens, tokens, PAIRS, kind="scores", **of),
    )
    hidden = "future" if torch.equal(mask, torch.ones_like(mask).tril()) else "window"
    return Step("Mask", formula, matrices, note=lectures()["notes"][hidden])


def divided(n: Notation, size: int, of: str = "") -> str:
    """What scaled scores are divided by, and of which size."""
    return f"Divided by {n.root} = √{size} = {size**0.5:.4g}{of}."


def _scores(subject: Subject, n: Notation, head: int) -> list[Step]:
    passed, score = subject.attention_pass, subject.section.attention_score
    if score == "additive":
        return [_additive(subject, n, head)]
    raw = dot_scores(passed.query, passed.key, 1.0)
    matrices = of_heads(subject, n, "raw_alone" if subject.is_plain else "raw", raw, [head], kind="scores")
    place = "Row m, column n" if n.columns_are_tokens else "Row n, column m"
    note = f"{place}: how well the query of token n fits the key of token m."
    if score == "dot":
        note += f"\nNot divided by {n.root}: these go into the softmax as they are."
    first = Step("Scores", n.score("parameter_free" if subject.is_plain else "dot"), matrices, note=note)
    words, notes = list[str](), _cap(subject)
    if score == "scaled_dot":
        size, total, model = passed.query.shape[2], subject.attention.num_heads, subject.section.d_model
        of_one = lectures()["notes"]["of_one_head"].format(model=model, root=model**0.5)
        words, notes = ["scaled"], [divided(n, size, of_one * (total > 1 and size != model)), *notes]
    words += ["capped"] * (subject.section.attention_softcap is not None)
    if not words:
        return [first]
    scaled = subject.attention.score(passed.query[None], passed.key[None])[0]
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    matrices = of_heads(subject, n, "scaled", scaled, [head], kind="scores")
    return [first, Step(" and ".join(words).capitalize(), formula, matrices, note="\n".join(notes))]


def score_formula(subject: Subject, n: Notation) -> str:
    """The score as it goes on to positions, mask and softmax; with several heads, parts of X are called Q, K and V."""
    score, cap = subject.section.attention_score, subject.section.attention_softcap
    written = n.score(score if subject.has_projections or subject.is_plain else "dot")
    return written if cap is None else f"{cap:g} tanh(({written}) / {cap:g})"


def _additive(subject: Subject, n: Notation, head: int) -> Step:
    """Bahdanau's score: a learned vector on what query and key come to together."""
    passed, weight = subject.attention_pass, subject.attention.score.weight
    assert weight is not None
    columns, scores = numbered(weight.shape[1]), subject.attention.score(passed.query[None], passed.key[None])[0]
    vector = n.matrix("score_vector", weight[head][None], ("1",), columns, ("one", "head"), head=head)
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    hidden_layer = n.scores["additive"].partition(" ")[2]
    about_vector = lectures()["notes"]["additive_vector"]
    note = about_vector.format(vector=vector.name, size=weight.shape[1], hidden=hidden_layer)
    matrices = (vector, *of_heads(subject, n, "scaled", scores, [head], kind="scores"))
    return Step("Additive scores", formula, matrices, note="\n".join([note, *_cap(subject)]))


def _cap(subject: Subject) -> list[str]:
    cap = subject.section.attention_softcap
    said = "Capped: c tanh(score / c) with c = {0:g} stays between −{0:g} and {0:g} (Gemma 2)."
    return [] if cap is None else [said.format(cap)]
