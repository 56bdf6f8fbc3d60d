"""The shape of every tensor of a layer, in its order, with the split into heads."""

import torch
from torch import Tensor, nn

from tfcli.inspection.explain.notation import Axis, Notation, notation
from tfcli.inspection.explain.projections import QUANTITIES, joined_axis
from tfcli.inspection.explain.scoring import score_formula
from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import NotationName, ShapeTrace, TensorShape

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
