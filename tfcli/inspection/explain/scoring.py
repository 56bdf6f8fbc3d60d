"""Where a lecture prints something else than what it computes, and which of it an explanation meets."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tfcli.inspection.explain import Matrix, MatrixKind, NotationName, Step
from tfcli.inspection.explain.notation import PAIRS, Axes, Axis, Notation, numbered
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.attention import dot_scores

Topic = Literal["attention", "layer"]

SLIPS: Mapping[NotationName, Mapping[Topic, tuple[str, ...]]] = {
    "bishop": {
        "attention": (
            "The slides give W⁽q⁾, W⁽k⁾ and W⁽v⁾ the sizes of Q, K and V, N × D_k and N × D_v: X W needs D × D_k and "
            "D × D_v.",
            "They give W⁽o⁾ the size H·D_v × D after calling the number of heads C: it is C·D_v × D.",
        ),
        "layer": (
            "The slides call Y a linear transformation of X: it is linear in the values, and not in X, as "
            "`explain attention` measures.",
        ),
    },
    "udl": {
        "attention": (
            "The notes leave the prime off the sum below a[x_n, x_m], k_mᵀ q_n inside Σ over m′: it is k_m′ᵀ q_n.",
            "They write xᵀy = |x| |y| θ: it is the cosine of θ.",
            "Their formula adds Π to V, K and Q; their sentence adds it to X, and so do we "
            "(model.position_merge = 'query_key' keeps it from the values).",
        ),
        "layer": (
            "The notes say that LayerNorm takes statistics across tokens: it takes them over the D numbers of a token. "
            "Across tokens they would tell a token of its future.",
        ),
    },
    "cs224n": {
        "attention": (
            "Equation 24 concatenates the values v_i⁽ℓ⁾: it is the heads' outputs h_i⁽ℓ⁾ of equation 22.",
            "The text gives a head's output the size d × d/k and all of them d × d: of n tokens, n × d/k and n × d.",
            "Equation 32 divides by √d, in its notation of a single head; k heads divide by √(d/k).",
        ),
        "layer": (
            "Equations 27 and 28 leave out ε, without which a token of equal numbers is divided by 0, and the hat of "
            "μ̂_i below the root.",
        ),
    },
    "inf721": {
        "attention": ("The slide writes X_e = E X: with one-hot rows it is X E, T_x × |V| times |V| × d_model.",),
        "layer": ("The slide writes X_e = E X: with one-hot rows it is X E, T_x × |V| times |V| × d_model.",),
    },
}

ENCODER_NOTES = (
    "Encoder notes (004) print V = X W_q and K ∈ N × d_v: V = X W_v, and K is N × d_k as Q is, or Q Kᵀ would not be.",
    "They stack the heads on top of each other before W_O: side by side, N × h·d_v, they meet its h·d_v rows.",
)


def slips(name: NotationName, topic: Topic) -> tuple[str, ...]:
    """What the lecture of a notation prints otherwise on a topic."""
    return SLIPS[name].get(topic, ())


QUANTITIES = ("query", "key", "value")


def projections(subject: Subject, n: Notation) -> Step:
    """W^q, W^k, W^v, and Q, K, V of all heads side by side."""
    passed = subject.attention_pass
    matrices: list[Matrix] = []
    for quantity in QUANTITIES:
        module = getattr(subject.attention, quantity)
        assert isinstance(module, nn.Linear)
        matrices += projection(n, quantity, module, ("model", joined_axis(subject, quantity)))
    for quantity in QUANTITIES:
        split: Tensor = getattr(passed, quantity)
        joined = split.transpose(0, 1).flatten(1)
        matrices.append(n.matrix(quantity, joined, _tokens(subject, quantity), numbered(joined.shape[1]), _SIZES))
    x, m = n.symbol("input"), n.symbol("memory" if subject.is_cross else "input")
    return Step(
        "Queries, keys and values", n.formulas["project"].format(x=x, m=m, v=m), tuple(matrices), note=_note(subject, n)
    )


_SIZES: Axes = ("tokens", "joined")


def projection(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> list[Matrix]:
    """The matrix of a linear map as the lectures have it, (in, out), and its bias where there is one."""
    matrices = [transposed(n, f"w_{quantity}", module, axes)]
    if module.bias is not None:
        columns = numbered(len(module.bias))
        matrices.append(n.matrix(f"b_{quantity}", module.bias[None], ("1",), columns, ("one", axes[1])))
    return matrices


def transposed(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> Matrix:
    """The matrix of a linear map, which PyTorch keeps as (out, in), as (in, out)."""
    weight = module.weight.T
    return n.matrix(quantity, weight, numbered(weight.shape[0]), numbered(weight.shape[1]), axes)


def split(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Each head's part of Q, K and V."""
    size = subject.attention.head_dim
    matrices = [
        n.matrix(
            quantity,
            getattr(subject.attention_pass, quantity)[head],
            _tokens(subject, quantity),
            tuple(str(head * size + i) for i in range(size)),
            ("tokens", "head"),
            head=head,
        )
        for quantity in QUANTITIES
        for head in heads
    ]
    total, model = subject.attention.num_heads, subject.section.d_model
    whole = total * size == model
    note = f"{n.axes['head']} = {model} / {total} = {size}: " if whole else ""
    note += f"head 0 takes columns 0 to {size - 1} of each, head 1 the next {size}, and so on."
    if n.columns_are_tokens:
        note = note.replace("columns", "rows")
    if total == 1:
        note = "There is one head."
    if not subject.has_projections:
        note = f"No projections: Q, K and V are cut out of {n.symbol('input')} itself. {note}"
    return Step("Split into heads", n.formulas["split"], tuple(matrices), note=note)


def _tokens(subject: Subject, quantity: str) -> tuple[str, ...]:
    return subject.query_tokens if quantity == "query" else subject.key_tokens


def joined_axis(subject: Subject, quantity: str) -> Axis:
    """The axis of all heads side by side; of keys and values there may be fewer heads."""
    shared = quantity != "query" and subject.attention.num_kv_heads != subject.attention.num_heads
    return "shared" if shared else "joined"


def _note(subject: Subject, n: Notation) -> str:
    section, notes = subject.section, []
    if section.attention_bias and n.name != "udl":
        notes.append(
            f"A bias is added to every row: {n.symbol('b_query')}, {n.symbol('b_key')}, {n.symbol('b_value')}."
        )
    if not section.attention_bias and n.name == "udl":
        notes.append("Here every β is 0 (model.attention_bias = false), and the maps are linear.")
    if subject.attention.num_kv_heads != subject.attention.num_heads:
        notes.append(
            f"{subject.attention.num_heads} heads of queries share {subject.attention.num_kv_heads} of keys and values"
            ", repeated here."
        )
    if section.query_key_norm:
        notes.append("Queries and keys are normalised a head at a time after the projection.")
    if subject.signal.rotation is not None:
        notes.append("Rotary positions turn queries and keys after the projection: these are turned.")
    return "\n".join(notes)


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
