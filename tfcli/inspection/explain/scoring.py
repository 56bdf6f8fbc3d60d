"""Attention scores and weights step by step: projections, heads, score, positions, mask and softmax."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tfcli.inspection.explain import Matrix, Step
from tfcli.inspection.explain.subject import PAIRS, Axes, Notation, Subject, numbered
from tfcli.layers.attention import dot_scores

QUANTITIES = ("query", "key", "value")


def projections(subject: Subject, n: Notation) -> Step:
    """W^q, W^k, W^v, and Q, K, V of all heads side by side."""
    learned, made = list[Matrix](), list[Matrix]()
    for quantity in QUANTITIES:
        axes = ("model", joined_axis(subject, quantity))
        learned += projection(n, quantity, getattr(subject.attention, quantity), axes)
        joined = getattr(subject.attention_pass, quantity).transpose(0, 1).flatten(1)
        made.append(n.vectors(quantity, joined, _tokens(subject, quantity), ("tokens", "joined")))
    x, m = n.symbol("input"), n.symbol("memory" if subject.is_cross else "input")
    formula = n.formulas["project"].format(x=x, m=m, v=m)
    return Step("Queries, keys and values", formula, (*learned, *made), note=_note(subject, n))


def projection(n: Notation, quantity: str, module: nn.Module, axes: Axes) -> list[Matrix]:
    """The matrix of a linear map, and its bias where there is one."""
    assert isinstance(module, nn.Linear)
    matrices = [transposed(n, f"w_{quantity}", module, axes)]
    if module.bias is not None:
        matrices.append(n.vectors(f"b_{quantity}", module.bias[None], ("1",), ("one", axes[1])))
    return matrices


def transposed(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> Matrix:
    """The matrix of a linear map as the lectures have it, (in, out); PyTorch keeps it as (out, in)."""
    return n.vectors(quantity, module.weight.T, numbered(module.in_features), axes)


def split(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Each head's part of Q, K and V."""
    axes, passed = ("tokens", "head"), subject.attention_pass
    matrices = list[Matrix]()
    for quantity in QUANTITIES:
        matrices += of_heads(subject, n, quantity, getattr(passed, quantity), heads, axes=axes, alone=False)
    size, total, model = subject.attention.head_dim, subject.attention.num_heads, subject.section.d_model
    note = f"{n.axes['head']} = {model} / {total} = {size}: " if total * size == model else ""
    note += f"head 0 takes columns 0 to {size - 1} of each, head 1 the next {size}, and so on."
    if n.columns_are_tokens:
        note = note.replace("columns", "rows")
    if total == 1:
        note = "There is one head."
    if not subject.has_projections:
        note = f"No projections: Q, K and V are cut out of {n.symbol('input')} itself. {note}"
    return Step("Split into heads", n.formulas["split"], tuple(matrices), note=note)


def of_heads(
    subject: Subject,
    n: Notation,
    quantity: str,
    values: Tensor,
    heads: Sequence[int],
    axes: Axes = PAIRS,
    *,
    alone: bool | None = None,
    **options: Any,
) -> tuple[Matrix, ...]:
    """A matrix for every head: of queries and keys, (H, T, S), or vectors whose dimensions are numbered through all
    heads, (H, T, Dh). `alone`: a head goes without a number; None: the only one does."""
    size, tokens, matrices = values.shape[2], _tokens(subject, quantity), []
    without = subject.attention.num_heads == 1 if alone is None else alone
    for head in heads:
        columns = subject.key_tokens if axes == PAIRS else numbered(size, head * size)
        number = None if without else head
        matrices.append(n.matrix(quantity, values[head], tokens, columns, axes, head=number, **options))
    return tuple(matrices)


def _tokens(subject: Subject, quantity: str) -> tuple[str, ...]:
    return subject.key_tokens if quantity in ("key", "value") else subject.query_tokens


def joined_axis(subject: Subject, quantity: str) -> str:
    """The axis of all heads side by side; of keys and values there may be fewer heads."""
    shared = quantity != "query" and subject.attention.num_kv_heads != subject.attention.num_heads
    return "shared" if shared else "joined"


def _note(subject: Subject, n: Notation) -> str:
    section, attention, notes = subject.section, subject.attention, []
    if section.attention_bias and n.name != "udl":
        notes.append(f"A bias is added to every row: {', '.join(n.symbol(f'b_{one}') for one in QUANTITIES)}.")
    if not section.attention_bias and n.name == "udl":
        notes.append("Here every β is 0 (model.attention_bias = false), and the maps are linear.")
    if attention.num_kv_heads != attention.num_heads:
        shared = f"{attention.num_heads} heads of queries share {attention.num_kv_heads} of keys and values"
        notes.append(f"{shared}, repeated here.")
    if section.query_key_norm:
        notes.append("Queries and keys are normalised a head at a time after the projection.")
    if subject.signal.rotation is not None:
        notes.append("Rotary positions turn queries and keys after the projection: these are turned.")
    return "\n".join(notes)


def scoring(subject: Subject, n: Notation, heads: Sequence[int]) -> list[Step]:
    """Every step from Q and K to the weights."""
    steps, logits, passed = _scores(subject, n, heads), score_formula(subject, n), subject.attention_pass
    if passed.bias is not None:
        logits += f" + {n.symbol('bias')}"
        matrices = of_heads(subject, n, "bias", passed.bias, heads)
        matrices += of_heads(subject, n, "scaled", passed.scores, heads)
        note = f"{subject.section.positions} positions add a number for the distance of query and key."
        steps.append(Step("Positions", n.formulas["scaled"].format(scores=logits), matrices, note=note))
    if not passed.mask.all():
        logits += f" + {n.symbol('mask')}"
        tokens = subject.query_tokens
        steps.append(masking(n, passed.scores, passed.mask, tokens, heads=heads, formula=logits))
    weights = of_heads(subject, n, "weights", passed.weights, heads, kind="weights", sums=True)
    formula = n.formulas["weights_alone" if subject.is_plain else "weights"].format(scores=logits)
    over = "column" if n.columns_are_tokens else "row"
    note = f"Every weight is at least 0, and each {over} sums to 1: what its query takes of every key."
    steps.append(Step("Weights", formula, weights, note=note))
    return steps


def masking(
    n: Notation, scores: Tensor, mask: Tensor, tokens: Sequence[str], heads: Sequence[int], formula: str
) -> Step:
    """The mask as the lectures add it, 0 or −∞, and the scores with it. Shape: scores (H, T, T), mask (T, T)."""
    added = torch.zeros(mask.shape).masked_fill(~mask.cpu(), -torch.inf)
    matrices = [n.matrix("mask", added, tokens, tokens, PAIRS, kind="mask")]
    for head in heads:
        number = None if len(scores) == 1 else head
        matrices.append(n.matrix("masked", scores[head].cpu() + added, tokens, tokens, PAIRS, head=number))
    note = "−∞ stands where a key is too far from its query, or comes after it: e^−∞ = 0."
    if torch.equal(mask, torch.ones_like(mask).tril()):
        note = "−∞ stands where a key comes after its query: e^−∞ = 0, so that no weight is left for the future."
    return Step("Mask", n.formulas["masked"].format(scores=formula), tuple(matrices), note=note)


def _scores(subject: Subject, n: Notation, heads: Sequence[int]) -> list[Step]:
    passed, score = subject.attention_pass, subject.section.attention_score
    if score == "additive":
        return [_additive(subject, n, heads)]
    raw = dot_scores(passed.query, passed.key, 1.0)
    matrices = of_heads(subject, n, "raw_alone" if subject.is_plain else "raw", raw, heads)
    formula = n.scores["parameter_free" if subject.is_plain else "dot"]
    note = f"{'Row m, column n' if n.columns_are_tokens else 'Row n, column m'}: "
    note += "how well the query of token n fits the key of token m."
    if score == "dot":
        note += f"\nNot divided by {n.root}: these go into the softmax as they are."
    first = Step("Scores", formula, matrices, note=note)
    words, notes = list[str](), _cap(subject)
    if score == "scaled_dot":
        size, total, model = subject.attention.head_dim, subject.attention.num_heads, subject.section.d_model
        of = f": the size of one head, not of the model (√{model} = {model**0.5:.4g})" if total > 1 else ""
        words, notes = ["scaled"], [f"Divided by {n.root} = √{size} = {size**0.5:.4g}{of}.", *notes]
    words += ["capped"] * (subject.section.attention_softcap is not None)
    if not words:
        return [first]
    scaled = of_heads(subject, n, "scaled", subject.attention.score(passed.query[None], passed.key[None])[0], heads)
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    return [first, Step(" and ".join(words).capitalize(), formula, scaled, note="\n".join(notes))]


def score_formula(subject: Subject, n: Notation) -> str:
    """The score as it goes on to positions, mask and softmax; with several heads, parts of X are called Q, K and V."""
    score, cap = subject.section.attention_score, subject.section.attention_softcap
    written = n.scores[score if subject.has_projections or subject.is_plain else "dot"]
    return written if cap is None else f"{cap:g} tanh(({written}) / {cap:g})"


def _additive(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Bahdanau's score: a learned vector on what query and key come to together."""
    passed, weight = subject.attention_pass, subject.attention.score.weight
    assert weight is not None
    vectors = n.vectors("score_vector", weight[list(heads)], [*map(str, heads)], ("heads", "head"))
    scores = subject.attention.score(passed.query[None], passed.key[None])[0]
    matrices = (vectors, *of_heads(subject, n, "scaled", scores, heads))
    formula = n.formulas["scaled"].format(scores=score_formula(subject, n))
    note = f"{n.symbol('score_vector')} holds a vector a head. Nothing to divide by: |tanh| stays below 1."
    return Step("Additive scores", formula, matrices, note="\n".join([note, *_cap(subject)]))


def _cap(subject: Subject) -> list[str]:
    cap = subject.section.attention_softcap
    said = "Capped: c tanh(score / c) with c = {0:g} stays between −{0:g} and {0:g} (Gemma 2)."
    return [] if cap is None else [said.format(cap)]
