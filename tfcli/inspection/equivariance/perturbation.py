"""Attention mixes tokens and the feed-forward works on each alone: shown by changing one token's vector (Bishop and
Bishop 2024, section 12.1.7)."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.equivariance.deviation import movement
from tfcli.inspection.tower import Tower, tower
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.span import Span
from tfcli.models.transformer import Transformer
from tfcli.records.arrays import frozen
from tfcli.records.equivariance import EQUAL, Half, PerturbationRecord

Function = Callable[[Tensor], Tensor]


@torch.inference_mode()
def perturbation(
    model: Transformer, ids: Sequence[int], tokens: Sequence[str], name: str, changed: int, *, seed: int = 0
) -> PerturbationRecord:
    """Change the vector of one token by a random one of the same length, and follow it through the layers.

    Args:
        tokens: labels of `ids`.
        changed: which token, from 0.

    Raises:
        UsageError: there is no such token, or the layers have no halves, one after the other.
    """
    if model.section.parallel_residual:
        raise UsageError(
            "With model.parallel_residual = true a layer has no halves, one after the other",
            "leave --perturb out, or name another run",
        )
    if not 0 <= changed < len(ids):
        raise UsageError(f"The text has no token {changed}", f"choose 0 to {len(ids) - 1}")
    one = tower(model)
    x = one.embedding(torch.tensor([list(ids)], device=model.device))
    push = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed)).to(x)
    before, after = x, _pushed(x, changed, push)
    columns, halves = [movement(before, after)[0]], []
    for layer, half, function in layer_halves(one, len(ids)):
        alone = movement(function(before), function(_pushed(before, changed, push)))[0] > EQUAL
        rows = int(alone.sum())
        halves.append(Half(layer, half, rows, rows > int(alone[changed])))  # type: ignore[arg-type]
        before, after = function(before), function(after)
        columns.append(movement(before, after)[0])
    moved = frozen(torch.stack(columns, dim=1).float().cpu().numpy())
    window = model.section.sliding_window
    return PerturbationRecord(name, tuple(tokens), changed, one.masked, window, moved, tuple(halves))


def layer_halves(one: Tower, length: int) -> Iterator[tuple[int, str, Function]]:
    """Each layer's attention, then its feed-forward, with norm and residual, as the layer itself runs them.

    Shape:
        each function: (1, T, D) → (1, T, D)
    """
    positions = one.stack.positions(Span(0, length))
    for number, layer in enumerate(one.stack.layers):
        assert isinstance(layer, TransformerLayer)
        yield number, "attention", _attention(layer, positions)
        yield number, "feed_forward", _feed_forward(layer)


def _attention(layer: TransformerLayer, positions: object) -> Function:
    return lambda x: layer.attention_residual(x, lambda h: layer.attention(h, positions=positions))


def _feed_forward(layer: TransformerLayer) -> Function:
    return lambda x: layer.feed_forward_residual(x, layer.feed_forward)


def _pushed(x: Tensor, row: int, push: Tensor) -> Tensor:
    """`x` with `push`, made as long as the row, added to one row.

    Shape: x (1, T, D); push (D,); returns (1, T, D)
    """
    pushed = x.clone()
    pushed[0, row] += push / push.norm() * x[0, row].norm().clamp(min=1e-6)
    return pushed
