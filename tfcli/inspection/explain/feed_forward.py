"""Inside the feed-forward: up to F numbers a token, the activation, and down again."""

from tfcli.inspection.explain.notation import VECTORS, Axes, Notation, numbered
from tfcli.inspection.explain.projections import transposed
from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import Measure, Step

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
