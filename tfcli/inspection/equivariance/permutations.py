"""Does a model care about the order of its tokens? Measured by permuting them (Bishop and Bishop 2024, 12.1.9)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.equivariance.changed_model import altered, norms_across_tokens
from tfcli.inspection.equivariance.deviation import root_mean_square
from tfcli.inspection.tower import Tower, tower
from tfcli.models.transformer import Transformer
from tfcli.records.equivariance import EQUAL, Deviation, EquivarianceRecord, NormLeak, Variant


@torch.inference_mode()
def equivariance(
    model: Transformer, ids: Sequence[int], tokens: Sequence[str], name: str, *, permutations: int = 10, seed: int = 0
) -> EquivarianceRecord:
    """How far f(P x) lies from P f(x), with positions and without, masked and not; and how far a changed last token
    moves the rows before it in a masked model, by what its norms take their statistics over.

    f is the stack with its embeddings, of an encoder-decoder its encoder.

    Args:
        tokens: labels of `ids`.
        name: what the model is called.

    Raises:
        UsageError: the text has no order that could be changed.
    """
    if len(set(ids)) < 2:
        raise UsageError("A text of one kind of token has no order to change", "give one with two different tokens")
    one, x = tower(model), torch.tensor([list(ids)], device=model.device)
    draws = _permutations(x[0], permutations, seed)
    return EquivarianceRecord(
        model=name,
        architecture=model.section.architecture,
        encoding=model.section.positions,
        window=model.section.sliding_window,
        tokens=tuple(tokens),
        permutations=permutations,
        deviations=tuple(_deviation(one, x, draws, variant) for variant in variants(model)),
        changed=len(ids) - 1,
        leaks=_leaks(one, x, len(ids) - 1),
    )


def variants(model: Transformer) -> tuple[Variant, ...]:
    """With positions and without, masked and not; a model that nothing tells positions has two. A window tells them."""
    section = model.section
    own = section.positions != "none" or section.sliding_window is not None, tower(model).masked
    told = (False, True) if own[0] else (False,)
    return tuple(Variant(p, m, (p, m) == own) for m in (False, True) for p in told)


def _permutations(ids: Tensor, number: int, seed: int) -> list[Tensor]:
    """Random orders in which the text reads otherwise."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    while len(found) < number:
        order = torch.randperm(len(ids), generator=generator).to(ids.device)
        if not torch.equal(ids[order], ids):
            found.append(order)
    return found


def _deviation(one: Tower, x: Tensor, draws: list[Tensor], variant: Variant) -> Deviation:
    with altered(one, positions=variant.positions, masked=variant.masked):
        straight = one.hidden(x)
        largest = max(float((one.hidden(x[:, order]) - straight[order]).abs().max()) for order in draws)
    relative = largest / root_mean_square(straight)
    return Deviation(variant, largest, relative, relative < EQUAL)


def _leaks(one: Tower, x: Tensor, changed: int) -> tuple[NormLeak, ...]:
    other = x.clone()
    other[0, changed] = x[0][x[0] != x[0, changed]][0]
    with altered(one, positions=True, masked=True):
        each = _moved_before(one, x, other, changed)
        with norms_across_tokens(one):
            across = _moved_before(one, x, other, changed)
    return tuple(
        NormLeak(statistics, largest, relative, relative >= EQUAL)  # type: ignore[arg-type]
        for statistics, (largest, relative) in (("each token", each), ("across tokens", across))
    )


def _moved_before(one: Tower, x: Tensor, other: Tensor, changed: int) -> tuple[float, float]:
    """How far the rows before a changed token move: the largest difference, and by the size of the rows."""
    rows = one.hidden(x)[:changed]
    largest = float((one.hidden(other)[:changed] - rows).abs().max())
    return largest, largest / root_mean_square(rows)
