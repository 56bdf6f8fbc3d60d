"""One whole layer: attention, residual, norm, feed-forward, residual, norm, in the order of its norm placement."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.inspection.equivariance.compute import across_tokens
from tfcli.inspection.explain import Explanation, Matrix, Measure, NotationName, ShapeTrace, Step, TensorShape
from tfcli.inspection.explain.notation import VECTORS, Axes, Axis, Notation, notation, numbered
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import ENCODER_NOTES, QUANTITIES, joined_axis, score_formula, slips, transposed
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.layer import Residual
from tfcli.layers.norms import LayerNorm, RMSNorm


def norm_step(
    n: Notation, norm: nn.Module, tokens: tuple[str, ...], before: tuple[str, Tensor], after: tuple[str, Tensor]
) -> Step:
    """One norm: the statistics of every token, the vectors behind it, and what their statistics are.

    Args:
        before, after: the quantity and its values, which the model has computed.

    Shape:
        values: (T, D)
    """
    assert isinstance(norm, LayerNorm | RMSNorm)
    quantity, x = before
    plain = _plain(norm, x)
    is_layer_norm = isinstance(norm, LayerNorm)
    measured = _moments(x, norm.eps) if is_layer_norm else _squares(x, norm.eps)
    labels = ("mean", "variance", "√(σ²+ε)") if is_layer_norm else ("square", "√(…+ε)")
    result = _moments(plain, 0.0)[:, [0, 2]] if is_layer_norm else _squares(plain, 0.0)[:, [1]]
    matrices = (
        _statistics(n, f"of {n.symbol(quantity)}", measured, tokens, labels),
        n.matrix(after[0], after[1], tokens, numbered(x.shape[1]), VECTORS),
        _statistics(n, "behind the norm", result, tokens, ("mean", "std") if is_layer_norm else ("root",)),
    )
    furthest = [Measure("largest distance of a std from 1", float((result[:, -1] - 1).abs().max()), "up to ε")]
    if is_layer_norm:
        furthest.insert(0, Measure("largest distance of a mean from 0", float(result[:, 0].abs().max()), "rounding"))
    return Step(
        f"{type(norm).__name__} of every token",
        n.formulas["norm" if is_layer_norm else "rms"],
        matrices,
        tuple(furthest) if is_layer_norm else (replace(furthest[0], name="largest distance of a root from 1"),),
        _note(norm, x.shape[1]),
    )


def _plain(norm: LayerNorm | RMSNorm, x: Tensor) -> Tensor:
    """The norm without its gain and its bias."""
    if isinstance(norm, LayerNorm):
        return F.layer_norm(x, (norm.size,), eps=norm.eps)
    return F.rms_norm(x, (norm.size,), eps=norm.eps)


def _moments(x: Tensor, eps: float) -> Tensor:
    """Mean, biased variance and √(variance + ε) of every row.

    Shape:
        x: (T, D) → (T, 3)
    """
    variance, mean = torch.var_mean(x, dim=1, correction=0)
    return torch.stack((mean, variance, (variance + eps).sqrt()), dim=1)


def _squares(x: Tensor, eps: float) -> Tensor:
    """Mean square and √(mean square + ε) of every row.

    Shape:
        x: (T, D) → (T, 2)
    """
    square = x.square().mean(dim=1)
    return torch.stack((square, (square + eps).sqrt()), dim=1)


def _statistics(n: Notation, name: str, values: Tensor, tokens: tuple[str, ...], labels: tuple[str, ...]) -> Matrix:
    matrix = n.matrix("input", values, tokens, labels, ("tokens", "one"))
    one, number = n.axes["one"], str(len(labels))
    first, second = (number if axis == one else axis for axis in matrix.axes)
    return replace(matrix, name=name, axes=(first, second))


def _note(norm: LayerNorm | RMSNorm, size: int) -> str:
    divided = (
        f"Over the {size} numbers of one token, never across tokens; the variance is the biased one, divided by {size}"
    )
    if isinstance(norm, RMSNorm):
        divided = f"It stands where formulas write LayerNorm: the mean square of the {size} numbers of one token"
    note = f"{divided}; ε = {norm.eps:g}."
    if norm.weight is not None and bool((norm.weight != 1).any()):
        note += (
            "\nThen every dimension gets its learned gain (and bias): statistics behind the norm are those before it."
        )
    return note


def leak(x: Tensor, eps: float) -> Step:
    """What statistics across tokens would do: let a token see those behind it.

    Shape:
        x: (T, D), with T > 1
    """
    other = x.clone()
    other[-1] = 2.0 * x[-1] + 1.0
    size = (x.shape[1],)
    per_token = (F.layer_norm(other, size, eps=eps) - F.layer_norm(x, size, eps=eps))[:-1].abs().max()
    across = (across_tokens(other, eps) - across_tokens(x, eps))[:-1].abs().max()
    return Step(
        "Statistics across tokens",
        "change the last token alone: how far do the others move?",
        measures=(
            Measure("statistics of each token", float(per_token), "nothing moves: no leak"),
            Measure("statistics across tokens", float(across), "the others move: they would see their future"),
        ),
        note="UDL's notes say 'across tokens', each dimension over all of them. A causal model cannot: it would see "
        "its future. `tfcli inspect equivariance` does that to every norm of a model.",
    )


_NAMES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu", "gelu_tanh": "gelu"}
_UP: Axes = ("model", "inner")
_DOWN: Axes = ("inner", "model")


def inside(subject: Subject, n: Notation) -> Step:
    """The matrices of the feed-forward, and its numbers between them."""
    section, module, passed = subject.section, subject.layer.feed_forward, subject.layer_pass
    act = _NAMES.get(section.activation, section.activation)
    formula = n.formulas["mlp_gated" if section.is_gated else "mlp"].format(act=act)
    tokens, (inner, size) = subject.query_tokens, (section.inner_size, section.d_model)
    gate = [] if module.gate is None else [transposed(n, "w_gate", module.gate, _UP)]
    matrices = (
        *gate,
        transposed(n, "w_up", module.up, _UP),
        n.matrix("inner", passed.inner, tokens, numbered(inner), ("tokens", "inner")),
        transposed(n, "w_down", module.output, _DOWN),
        n.matrix("mlp", passed.feed_forward, tokens, numbered(size), VECTORS),
    )
    zeros = Measure("share of inner numbers at 0", float((passed.inner == 0).float().mean()), "switched off by relu")
    return Step(
        "Feed-forward",
        formula,
        matrices,
        (zeros,) if act == "relu" else (),
        f"inner is {act} of what the first matrix gives, {inner} numbers a token; no token sees another."
        f"{_biases(subject, n)}",
    )


def _biases(subject: Subject, n: Notation) -> str:
    if subject.section.feed_forward_bias:
        return "\nIts biases are added, too, and not shown."
    return "\nHere every β is 0 (model.feed_forward_bias = false)." if n.name == "udl" else ""


def two_maps(subject: Subject) -> Step:
    """(X W_q) W_q⁽ⁱ⁾ beside X (W_q W_q⁽ⁱ⁾), with the layer's W_q and a random W_q⁽ⁱ⁾."""
    module = subject.layer.attention.query
    assert isinstance(module, nn.Linear)
    x, first = subject.layer_pass.attention.x, module.weight.T
    size = first.shape[1]
    second = torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(first) / size**0.5
    apart = float(((x @ first) @ second - x @ (first @ second)).abs().max())
    return Step(
        "Two linear maps in a row are one",
        "(X W_q) W_q⁽ⁱ⁾ = X (W_q W_q⁽ⁱ⁾)",
        measures=(Measure("largest deviation", apart, "rounding alone"),),
        note="Encoder notes (004) build heads, with d_k × d_k matrices, on Q, K and V that are projected already. For "
        "d_k ≥ D that is one map a head, and W_q could be left out; for d_k < D all heads see the same d_k dimensions.",
    )


_Value = tuple[str, Tensor]
"""A quantity of the notation and its values."""


@dataclass(frozen=True)
class _Sublayer:
    """A sublayer f with the road around it: x enters, f gives `output`, `after` leaves.

    Args:
        normed: what f reads where the norm comes first.
        total: what the sum of x and f is called where the norm comes behind it.
        inside: what f does, where that is shown.
    """

    title: str
    formula: str
    residual: Residual
    x: _Value
    normed: _Value
    output: _Value
    total: str
    after: _Value
    inside: tuple[Step, ...] = ()
    note: str = ""


def explain_layer(subject: Subject, name: NotationName = "bishop") -> Explanation:
    """What every part of a layer takes and gives, with the numbers that the model computes.

    Raises:
        UsageError: the sublayers are parallel.
    """
    subject.require_sublayers_in_turn()
    n = notation(name)
    with torch.inference_mode():
        steps = [_entrance(subject, n)]
        for sublayer in _sublayers(subject, n):
            steps += _steps(n, sublayer, subject.query_tokens)
        if len(subject.query_tokens) > 1:
            steps.append(leak(subject.layer_pass.before.float(), subject.section.norm_eps))
        if subject.has_projections:
            steps.append(two_maps(subject))
    return Explanation(
        f"A transformer layer, {subject.section.norm_placement}-norm, step by step",
        f"{subject.label}; dimensions count from 0",
        name,
        tuple(steps),
        (*slips(name, "layer"), *ENCODER_NOTES),
    )


def _entrance(subject: Subject, n: Notation) -> Step:
    if subject.words is not None:
        return entrance(subject, n)
    matrix = _vectors(n, ("input", subject.layer_pass.before), subject.query_tokens)
    return Step("What the layer reads", n.formulas["enter"], (matrix,))


def _steps(n: Notation, one: _Sublayer, tokens: tuple[str, ...]) -> list[Step]:
    """The steps of a sublayer in the order in which they are taken."""
    x, output = _vectors(n, one.x, tokens), _vectors(n, one.output, tokens)
    if one.residual.placement == "pre":
        after = _vectors(n, one.after, tokens)
        norm = norm_step(n, one.residual.norm, tokens, one.x, one.normed)
        return [norm, *one.inside, Step(f"{one.title} and residual", one.formula, (x, output, after), note=one.note)]
    total = (one.total, one.x[1] + one.output[1])
    added = Step(f"{one.title} and residual", one.formula, (x, output, _vectors(n, total, tokens)), note=one.note)
    return [*one.inside, added, norm_step(n, one.residual.norm, tokens, total, one.after)]


def _vectors(n: Notation, value: _Value, tokens: tuple[str, ...]) -> Matrix:
    return n.matrix(value[0], value[1], tokens, numbered(value[1].shape[1]), VECTORS)


def _sublayers(subject: Subject, n: Notation) -> list[_Sublayer]:
    layer, passed, placement = subject.layer, subject.layer_pass, subject.section.norm_placement
    middle: _Value = ("middle", passed.after_attention)
    found = [
        _Sublayer(
            "Attention",
            n.formulas[f"{placement}_attention"],
            layer.attention_residual,
            ("input", passed.before),
            ("normed_input", passed.attention.value_source),
            ("attended", passed.attention.output),
            "first_sum",
            middle,
            note="What happens inside the attention is shown by `tfcli explain attention`.",
        )
    ]
    if passed.cross is not None and passed.after_cross is not None and layer.cross_attention_residual is not None:
        crossed: _Value = ("crossed", passed.after_cross)
        found.append(
            _Sublayer(
                "Cross-attention",
                n.formulas[f"{placement}_cross"],
                layer.cross_attention_residual,
                middle,
                ("normed_crossing", passed.cross.x),
                ("attended_across", passed.cross.output),
                "crossed_sum",
                crossed,
                note="Queries come from here, keys and values from the encoder's output.",
            )
        )
        middle = crossed
    feed_forward = _Sublayer(
        "Feed-forward",
        n.formulas[f"{placement}_mlp"],
        layer.feed_forward_residual,
        middle,
        ("normed_middle", passed.feed_forward_input),
        ("mlp", passed.feed_forward),
        "second_sum",
        ("out", passed.after),
        (inside(subject, n),),
    )
    return [*found, feed_forward]


_Axes = tuple[Axis, ...]
_SPLIT: _Axes = ("heads", "tokens", "head")


def trace_shapes(subject: Subject, name: NotationName = "cs224n") -> ShapeTrace:
    """Every tensor that one text takes through a layer; of a batch of B texts, each has B in front.

    Raises:
        UsageError: the sublayers are parallel.
    """
    subject.require_sublayers_in_turn()
    n = notation(name)
    with torch.inference_mode():
        tensors = (*_attention(subject, n), *_rest(subject, n))
    notes = ["A batch of texts adds an axis in front of every one of them but the weights."]
    if n.columns_are_tokens:
        notes.append("With tokens as columns, a head is a block of rows: a reshape alone, and nothing to transpose.")
    return ShapeTrace("Shapes of a transformer layer", subject.label, name, tensors, tuple(notes))


def _attention(subject: Subject, n: Notation) -> list[TensorShape]:
    passed, symbol = subject.layer_pass.attention, n.symbol
    heads, mixed = passed.query, passed.mixed
    vectors: _Axes = ("tokens", "model")
    pairs: _Axes = ("heads", "tokens", "tokens")
    rows = [_shape(n, symbol("input"), n.formulas["enter"], subject.layer_pass.before, vectors)]
    if subject.section.norm_placement == "pre":
        rows.append(_shape(n, symbol("normed_input"), "the norm of every token", passed.value_source, vectors))
    if not n.columns_are_tokens:
        apart = heads.transpose(0, 1)
        rows_of_heads = [_shape(n, "reshape", "the heads apart, so of K and V", apart, ("tokens", "heads", "head"))]
        rows_of_heads.append(_shape(n, "transpose", "the heads a batch axis", heads, _SPLIT))
    else:
        rows_of_heads = [_shape(n, "reshape", "the heads a batch axis, so of K and V", heads, _SPLIT)]
    module = subject.layer.attention.output
    recombined = [_weights(n, "w_output", module, ("joined", "model"))] if subject.has_projections else []
    return [
        *rows,
        *(_projections(subject, n) if subject.has_projections else ()),
        *rows_of_heads,
        _shape(n, "scores", score_formula(subject, n), passed.scores, pairs),
        _shape(n, symbol("weights"), "softmax of the scores", passed.weights, pairs),
        _shape(n, symbol("mixed"), n.formulas["mix"], mixed, _SPLIT),
        _shape(n, symbol("joined"), "the heads side by side", mixed.transpose(0, 1).flatten(1), ("tokens", "joined")),
        *recombined,
        _shape(n, symbol("attended"), n.formulas["join"].split("   ")[-1], passed.output, vectors),
    ]


def _projections(subject: Subject, n: Notation) -> list[TensorShape]:
    """Q, K and V of all heads side by side, with the matrices that make them."""
    x = n.symbol("input")
    formulas = n.formulas["project"].format(x=x, m=x, v=x).split("   ")
    rows = []
    for quantity, formula in zip(QUANTITIES, formulas, strict=True):
        module = getattr(subject.layer.attention, quantity)
        joined = joined_axis(subject, quantity)
        made = subject.layer_pass.attention.x.shape[0], module.weight.shape[0]
        rows += [
            _weights(n, f"w_{quantity}", module, ("model", joined)),
            _shape(n, n.symbol(quantity), formula, torch.empty(made), ("tokens", joined)),
        ]
    return rows


def _rest(subject: Subject, n: Notation) -> list[TensorShape]:
    passed, module, placement = subject.layer_pass, subject.layer.feed_forward, subject.section.norm_placement
    vectors: _Axes = ("tokens", "model")
    gated = "mlp_gated" if subject.section.is_gated else "mlp"
    rows = [_shape(n, n.symbol("middle"), n.formulas[f"{placement}_attention"], passed.after_attention, vectors)]
    if passed.after_cross is not None:
        rows.append(_shape(n, n.symbol("crossed"), n.formulas[f"{placement}_cross"], passed.after_cross, vectors))
    if placement == "pre":
        rows.append(_shape(n, n.symbol("normed_middle"), "the norm of every token", passed.feed_forward_input, vectors))
    if module.gate is not None:
        rows.append(_weights(n, "w_gate", module.gate, ("model", "inner")))
    return [
        *rows,
        _weights(n, "w_up", module.up, ("model", "inner")),
        _shape(n, n.symbol("inner"), "behind the activation", passed.inner, ("tokens", "inner")),
        _weights(n, "w_down", module.output, ("inner", "model")),
        _shape(n, n.symbol("mlp"), n.formulas[gated].format(act="f"), passed.feed_forward, vectors),
        _shape(n, n.symbol("out"), n.formulas[f"{placement}_mlp"], passed.after, vectors),
    ]


def _weights(n: Notation, quantity: str, module: nn.Module, axes: _Axes) -> TensorShape:
    """A weight as the lectures have it: PyTorch keeps it as (out, in)."""
    assert isinstance(module, nn.Linear)
    weight = module.weight
    turned = quantity in n.turned and not n.columns_are_tokens
    return _shape(n, n.symbol(quantity), "learned", weight if turned else weight.T, axes[::-1] if turned else axes)


def _shape(n: Notation, name: str, formula: str, values: Tensor, axes: _Axes) -> TensorShape:
    """A tensor with a token a row; of columns, the last two axes change places."""
    sizes = tuple(values.shape)
    if n.columns_are_tokens:
        axes, sizes = (*axes[:-2], axes[-1], axes[-2]), (*sizes[:-2], sizes[-1], sizes[-2])
    return TensorShape(name, formula, tuple(n.axes[axis] for axis in axes), sizes)
