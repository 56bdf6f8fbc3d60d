"""One whole layer: attention, residual, norm, feed-forward, residual, norm, in the order of its norm placement."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.inspection.explain.embedding import entrance
from tfcli.inspection.explain.feed_forward import inside
from tfcli.inspection.explain.norms import leak, norm_step
from tfcli.inspection.explain.notation import VECTORS, Notation, notation, numbered
from tfcli.inspection.explain.slips import ENCODER_NOTES, slips
from tfcli.inspection.explain.subject import Subject
from tfcli.inspection.explain.two_maps import two_maps
from tfcli.layers.layer import Residual
from tfcli.records.explain import Explanation, Matrix, NotationName, Step

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
