"""A normalisation with its numbers: what is measured of each token, and that it comes out as promised."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.inspection.equivariance.across_tokens import across_tokens
from tfcli.inspection.explain.notation import VECTORS, Notation, numbered
from tfcli.layers.norms import LayerNorm, RMSNorm
from tfcli.records.explain import Matrix, Measure, Step


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
    matrix = n.matrix("statistics", values, tokens, labels, ("tokens", "one"))
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
