"""Encodings side by side, of formulas, of runs, and as they are before training."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.inspection.positions.requirements import BIASES, requirements
from tfcli.inspection.positions.sizes import HEADS, SIZE, columns_of
from tfcli.inspection.positions.tables import Side, positions_table, relative_weight, run_positions, stack_name
from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.positions import AttentionPositions
from tfcli.layers.span import Span
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection, PositionLayout
from tfcli.records.arrays import frozen
from tfcli.records.positions import BeyondContext, PositionComparison, PositionRequirements, PositionsRecord

Described = tuple[PositionsRecord, PositionRequirements]


def formula(
    encoding: str, length: int, size: int, base: float, layout: PositionLayout | None = None, k: int = 1
) -> Described:
    """An encoding that is a formula, with its requirements; arguments as those of `positions_table`."""

    def table(positions: int) -> PositionsRecord:
        return positions_table(encoding, positions, size, base, layout=layout)

    record = table(length)
    shown = min(length, BIASES)
    biases = frozen(alibi_bias(shown, shown, alibi_slopes(size))[0].numpy()) if encoding == "alibi" else None
    return record, requirements(record, table, k=k, biases=biases)


def sized_formula(
    encoding: str,
    length: int | None = None,
    d_model: int | None = None,
    heads: int | None = None,
    base: float | None = None,
    layout: PositionLayout | None = None,
    k: int = 1,
) -> Described:
    """A formula of the sizes that are given, with the usual ones for the others.

    Args:
        heads: of rotary, those that share d_model; of alibi, a column each.

    Raises:
        UsageError: as `positions_table`, or the heads do not divide d_model.
    """
    base = ModelSection.position_base if base is None else base
    return formula(encoding, length or SIZE, columns_of(encoding, d_model, heads), base, layout, k)


def of_run(
    model: Transformer,
    name: str,
    length: int | None = None,
    side: Side | None = None,
    k: int = 1,
    beyond: BeyondContext | None = None,
) -> Described:
    """A model's own encoding, with its requirements.

    Raises:
        UsageError: as `run_positions`.
    """
    record = run_positions(model, length, side)

    def longer(positions: int) -> PositionsRecord:
        return run_positions(model, positions, side)

    found = requirements(
        record,
        None if record.encoding == "learned" else longer,
        origin=name,
        k=k,
        biases=_biases(model, min(record.length, BIASES), side) if record.columns == "head" else None,
        buckets=frozen(relative_weight(model, record.side).detach().float().cpu()) if record.encoding == "t5" else None,
        beyond=beyond,
    )
    return record, found


def compared(
    runs: list[Described],
    length: int | None = None,
    d_model: int | None = None,
    heads: int | None = None,
    base: float | None = None,
    k: int = 1,
) -> PositionComparison:
    """Every encoding: those of runs; for the others a formula or, where there is none, what training begins with.

    Args:
        length: positions of the others; None: as many as the first run has.

    Raises:
        UsageError: two runs have the same encoding.
    """
    known = _by_encoding(runs)
    length = length or (runs[0][0].length if runs else SIZE)
    d_model, heads = d_model or SIZE, heads or HEADS
    base = ModelSection.position_base if base is None else base
    size = {"sinusoidal": d_model, "rotary": max(2, d_model // heads // 2 * 2), "alibi": heads}
    for encoding in ("sinusoidal", "rotary", "alibi"):
        if encoding not in known:
            known[encoding] = formula(encoding, length, size[encoding], base, k=k)
    for learned in ("learned", "t5"):
        if learned not in known:
            known[learned] = of_run(_untrained(learned, length, d_model, heads), "untrained", length, k=k)
    order = [known[encoding] for encoding in ("sinusoidal", "learned", "rotary", "alibi", "t5")]
    return PositionComparison(tuple(record for record, _ in order), tuple(found for _, found in order))


def _by_encoding(runs: list[Described]) -> dict[str, Described]:
    known: dict[str, Described] = {}
    for record, found in runs:
        if record.encoding in known:
            other = known[record.encoding][1].origin
            raise UsageError(f"{other} and {found.origin} both have {record.encoding} positions", "name one of the two")
        known[record.encoding] = (record, found)
    return known


def _untrained(encoding: Literal["learned", "t5"], length: int, d_model: int, heads: int) -> Transformer:
    whole = -(-d_model // heads) * heads
    section = ModelSection(
        positions=encoding, d_model=whole, num_layers=1, num_heads=heads, max_seq_len=length, vocab_size=1
    )
    return build_model(section)


def _biases(model: Transformer, length: int, side: Side | None) -> NDArray[np.float32]:
    """What the model adds to the scores.

    Shape:
        returns: (H, N, N)
    """
    of = (side or "source") if model.section.architecture == "encoder-decoder" else None
    positions = model.get_submodule(f"{stack_name(of)}.positions")
    assert isinstance(positions, AttentionPositions)
    with torch.inference_mode():
        bias = positions(Span(0, length)).bias
    assert bias is not None
    return frozen(bias[0].float().cpu().numpy())
