"""A transformer layer step by step: attention, feed-forward, residuals and norms, as its norm placement has them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.inspection.equivariance.compute import across_tokens
from tfcli.inspection.explain import Explanation, Matrix, Measure, NotationName, ShapeTrace, Step, TensorShape
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import QUANTITIES, score_formula, transposed
from tfcli.inspection.explain.subject import VECTORS, Axes, Notation, Subject, lectures
from tfcli.layers.layer import Residual
from tfcli.layers.norms import LayerNorm, RMSNorm

_Value = tuple[str, Tensor]  # a quantity of the notation


def norm_step(n: Notation, norm: nn.Module, tokens: tuple[str, ...], before: _Value, after: _Value) -> Step:
    """One norm: each token's statistics, the vectors behind it, and theirs; `before`, `after`: the model's (T, D)."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    (quantity, x), centred, notes = before, isinstance(norm, LayerNorm), lectures()["notes"]
    # No gain and no bias; in float64, because the distances from 0 and 1 are as small as float32 rounds.
    plain = (F.layer_norm if centred else F.rms_norm)(x.double(), (norm.size,), eps=norm.eps)
    result = _moments(plain, 0.0, centred=centred)[:, [0, 2] if centred else [1]]
    labels, word = (("mean", "variance", "√(σ²+ε)"), "std") if centred else (("square", "√(…+ε)"), "root")
    moments = _moments(x, norm.eps, centred=centred)
    told = notes["alike"].format(root=norm.eps**0.5) if moments[:, -2].min() < norm.eps else "up to ε"
    measures = [Measure(f"largest distance of a {word} from 1", float((result[:, -1] - 1).abs().max()), told)]
    if centred:
        largest_mean = float(result[:, 0].abs().max())
        measures.insert(0, Measure("largest distance of a mean from 0", largest_mean, "rounding", is_residue=True))

    def statistics(name: str, values: Tensor, labels: Sequence[str]) -> Matrix:
        return n.matrix(name, values, tokens, labels, ("tokens", str(len(labels))))

    matrices = (
        statistics(f"of {n.symbol(quantity)}", moments, labels),
        n.vectors(*after, tokens),
        statistics("behind the norm", result, ("mean", word) if centred else (word,)),
    )
    note = notes["layer_norm" if centred else "rms_norm"].format(size=norm.size, eps=norm.eps)
    has_bias, gain = getattr(norm, "bias", None) is not None, norm.weight
    kind = "no_gain" if gain is None else "plain_gain" if bool((gain == 1).all()) else "gain"
    note += notes[kind].format(learned="gain" + " and bias" * has_bias, still="1" + " and 0" * has_bias)
    formula = n.formulas["norm" if centred else "rms"]
    return Step(f"{type(norm).__name__} of every token", formula, matrices, tuple(measures), note)


def _moments(x: Tensor, eps: float, *, centred: bool) -> Tensor:
    """Mean, biased variance and √(variance + ε) of every row; not centred, mean square and √(mean square + ε)."""
    if not centred:
        square = x.square().mean(dim=1)
        return torch.stack((square, (square + eps).sqrt()), dim=1)
    variance, mean = torch.var_mean(x, dim=1, correction=0)
    return torch.stack((mean, variance, (variance + eps).sqrt()), dim=1)


def leak(x: Tensor, eps: float) -> Step:
    """What statistics across tokens would do: let a token see those behind it. Shape: x (T, D), with T > 1."""
    other, size = x.clone(), (x.shape[1],)
    other[-1] = 2.0 * x[-1] + 1.0
    per_token = (F.layer_norm(other, size, eps=eps) - F.layer_norm(x, size, eps=eps))[:-1].abs().max()
    across = (across_tokens(other, eps) - across_tokens(x, eps))[:-1].abs().max()
    measures = (
        Measure("statistics of each token", float(per_token), "nothing moves: no leak"),
        Measure("statistics across tokens", float(across), "the others move: they would see their future"),
    )
    formula, note = "change the last token alone: how far do the others move?", lectures()["notes"]["across_tokens"]
    return Step("Statistics across tokens", formula, measures=measures, note=note)


_NAMES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu", "gelu_tanh": "gelu"}


def inside(subject: Subject, n: Notation) -> Step:
    """The matrices of the feed-forward, and its numbers between them."""
    section, module, passed = subject.section, subject.layer.feed_forward, subject.layer_pass
    act, tokens = _NAMES.get(section.activation, section.activation), subject.query_tokens
    matrices = (
        *([] if module.gate is None else [transposed(n, "w_gate", module.gate, ("model", "inner"))]),
        transposed(n, "w_up", module.up, ("model", "inner")),
        n.vectors("inner", passed.inner, tokens, ("tokens", "inner")),
        transposed(n, "w_down", module.output, ("inner", "model")),
        n.vectors("mlp", passed.feed_forward, tokens),
    )
    zeros = Measure("share of inner numbers at 0", float((passed.inner == 0).float().mean()), "switched off by relu")
    note = lectures()["notes"]["inside"].format(act=act, size=section.inner_size)
    if section.feed_forward_bias:
        note += "\nIts biases are added, too, and not shown."
    elif n.name == "udl":
        note += "\nHere every β is 0 (model.feed_forward_bias = false)."
    formula = n.formulas["mlp_gated" if section.is_gated else "mlp"].format(act=act)
    return Step("Feed-forward", formula, matrices, (zeros,) if act == "relu" else (), note)


def explain_layer(subject: Subject, name: NotationName = "bishop") -> Explanation:
    """What every part of a layer takes and gives, with the model's numbers. A UsageError of parallel sublayers."""
    subject.require_sublayers_in_turn()
    n, tokens, before = subject.notation(name), subject.query_tokens, subject.layer_pass.before
    with torch.inference_mode():
        read = Step("What the layer reads", n.formulas["enter"], (n.vectors("input", before, tokens),))
        steps = [read if subject.vocabulary is None else entrance(subject, n), *_sublayers(subject, n)]
        if len(tokens) > 1 and name == "udl":
            steps.append(leak(before.float(), subject.section.norm_eps))
    title = f"A transformer layer, {subject.section.norm_placement}-norm, step by step"
    return Explanation(title, f"{subject.label}; dimensions count from 0", name, tuple(steps), tuple(n.slips["layer"]))


def _sublayers(subject: Subject, n: Notation) -> list[Step]:
    layer, passed, placement = subject.layer, subject.layer_pass, subject.section.norm_placement
    tokens, middle = subject.query_tokens, ("middle", passed.after_attention)

    def taken(title: str, key: str, road: Residual, values: Sequence[_Value], total: str, note: str = "") -> list[Step]:
        """A sublayer with the road around it, by four values: what enters, what it reads where the norm comes first,
        what it gives, and what leaves. Where the norm comes behind, the sum is called `total`."""
        (x, normed, output, after), between = values, [inside(subject, n)] if key == "mlp" else []
        added = after if placement == "pre" else (total, x[1] + output[1])
        matrices = tuple(n.vectors(*value, tokens) for value in (x, output, added))
        sums = Step(f"{title} and residual", n.formulas[f"{placement}_{key}"], matrices, note=note)
        if placement == "pre":
            return [norm_step(n, road.norm, tokens, x, normed), *between, sums]
        return [*between, sums, norm_step(n, road.norm, tokens, added, after)]

    own, entered = passed.attention, ("input", passed.before)
    values = [entered, ("normed_input", own.value_source), ("attended", own.output), middle]
    note = "What happens inside the attention is shown by `tfcli explain attention`."
    steps = taken("Attention", "attention", layer.attention_residual, values, total="first_sum", note=note)
    if passed.cross is not None and passed.after_cross is not None and (road := layer.cross_attention_residual):
        cross, crossed = passed.cross, ("crossed", passed.after_cross)
        values = [middle, ("normed_crossing", cross.x), ("attended_across", cross.output), crossed]
        note = "Queries come from here, keys and values from the encoder's output."
        steps += taken("Cross-attention", "cross", road, values, total="crossed_sum", note=note)
        middle = crossed
    given, left = ("mlp", passed.feed_forward), ("out", passed.after)
    values = [middle, ("normed_middle", passed.feed_forward_input), given, left]
    return steps + taken("Feed-forward", "mlp", layer.feed_forward_residual, values, "second_sum")


def trace_shapes(subject: Subject, name: NotationName = "cs224n") -> ShapeTrace:
    """Every tensor that one text takes through a layer; a batch adds B in front. A UsageError of parallel sublayers."""
    subject.require_sublayers_in_turn()
    own = replace(subject, attention=subject.layer.attention, attention_pass=subject.layer_pass.attention)
    with torch.inference_mode():
        tensors = tuple(_tensors(own, n := own.notation(name)))
    notes = ["A batch of texts adds an axis in front of every one of them but the weights."]
    if n.columns_are_tokens:
        notes.append("With tokens as columns, a head is a block of rows: a reshape alone, and nothing to transpose.")
    return ShapeTrace("Shapes of a transformer layer", subject.label, name, tensors, tuple(notes))


def _shape(n: Notation, quantity: str, formula: str, values: Tensor, axes: Axes = VECTORS) -> TensorShape:
    """A tensor with a token a row; where tokens are columns, the last two axes change places."""
    sizes = tuple(values.shape)
    if n.columns_are_tokens:
        axes, sizes = (*axes[:-2], axes[-1], axes[-2]), (*sizes[:-2], sizes[-1], sizes[-2])
    return TensorShape(n.symbol(quantity), formula, tuple(n.axes[axis] for axis in axes), sizes)


def _weight(n: Notation, quantity: str, module: Any, axes: Axes) -> TensorShape:
    """As the lectures have it: PyTorch keeps it as (out, in)."""
    turned = quantity in n.turned and not n.columns_are_tokens
    return _shape(n, quantity, "learned", *((module.weight, axes[::-1]) if turned else (module.weight.T, axes)))


def _tensors(subject: Subject, n: Notation) -> Iterator[TensorShape]:
    whole, placement, feed_forward = subject.layer_pass, subject.section.norm_placement, subject.layer.feed_forward
    yield _shape(n, "input", n.formulas["enter"], whole.before)
    if placement == "pre":
        yield _shape(n, "normed_input", "the norm of every token", whole.attention.value_source)
    yield from _attention_tensors(subject, n, "normed_input" if placement == "pre" else "input")
    yield _shape(n, "attended", n.formulas["join"].split("   ")[-1], whole.attention.output)
    yield _shape(n, "middle", n.formulas[f"{placement}_attention"], whole.after_attention)
    if whole.cross is not None and whole.after_cross is not None and subject.layer.cross_attention is not None:
        if placement == "pre":
            yield _shape(n, "normed_crossing", "the norm of every token", whole.cross.x)
        across = replace(subject, attention=subject.layer.cross_attention, attention_pass=whole.cross)
        yield _shape(n, "memory", "what the encoder gives", whole.cross.memory, ("source", "model"))
        yield from _attention_tensors(across, n, "normed_crossing" if placement == "pre" else "middle")
        yield _shape(n, "attended_across", "the heads together", whole.cross.output)
        yield _shape(n, "crossed", n.formulas[f"{placement}_cross"], whole.after_cross)
    if placement == "pre":
        yield _shape(n, "normed_middle", "the norm of every token", whole.feed_forward_input)
    if feed_forward.gate is not None:
        yield _weight(n, "w_gate", feed_forward.gate, ("model", "inner"))
    yield _weight(n, "w_up", feed_forward.up, ("model", "inner"))
    yield _shape(n, "inner", "behind the activation", whole.inner, ("tokens", "inner"))
    yield _weight(n, "w_down", feed_forward.output, ("inner", "model"))
    act = _NAMES.get(subject.section.activation, subject.section.activation)
    formula = n.formulas["mlp_gated" if subject.section.is_gated else "mlp"].format(act=act)
    yield _shape(n, "mlp", formula, whole.feed_forward)
    yield _shape(n, "out", n.formulas[f"{placement}_mlp"], whole.after)


def _attention_tensors(subject: Subject, n: Notation, read: str) -> Iterator[TensorShape]:
    """Those of one attention, from the projections of what it reads to that of its output."""
    module, passed, n = subject.attention, subject.attention_pass, subject.notation(n.name)
    n = replace(n, names={**n.names, "input": n.names[read]})
    if subject.has_projections:
        for quantity, formula in zip(QUANTITIES, n.projected("project").split("   "), strict=True):
            linear, joined = getattr(module, quantity), f"joined_{quantity}"
            given, length = (passed.x, "tokens") if quantity == "query" else (passed.memory, subject.pairs[1])
            yield _weight(n, f"w_{quantity}", linear, ("model", joined))
            yield _shape(n, quantity, formula, torch.empty(len(given), len(linear.weight)), (length, joined))
    for quantity in QUANTITIES:
        values, axis = getattr(passed, quantity), "value" if quantity == "value" else "head"
        length = "tokens" if quantity == "query" else subject.pairs[1]
        name, moved = n.symbol(quantity), "reshape" if n.columns_are_tokens else "transpose"
        if not n.columns_are_tokens:
            yield _shape(n, f"reshape {name}", "the heads apart", values.transpose(0, 1), (length, "heads", axis))
        yield _shape(n, f"{moved} {name}", "the heads a batch axis", values, ("heads", length, axis))
    yield _shape(n, "scores", score_formula(subject, n), passed.scores, ("heads", *subject.pairs))
    yield _shape(n, "weights", "softmax of the scores", passed.weights, ("heads", *subject.pairs))
    yield _shape(n, "mixed", n.formulas["mix"], passed.mixed, ("heads", "tokens", "value"))
    yield _shape(n, "joined", "the heads side by side", passed.mixed.transpose(0, 1).flatten(1), ("tokens", "joined"))
    if subject.has_projections:
        yield _weight(n, "w_output", module.output, ("joined", "model"))
