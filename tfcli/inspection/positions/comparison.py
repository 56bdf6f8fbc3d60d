"""Requirements of a positional encoding, measured: bounded, unique, usable beyond its length, with a consistent
distance, and in the data rather than in the architecture (Bishop and Bishop 2024, section 12.1.9)."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.positions import HEADS, SIZE, BeyondContext, Described, PositionsRecord, Requirement, Requirements
from tfcli.inspection.positions.compute import Side, fitted, positions_table, relative_weight, run_positions, stack_name
from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.attention import Span
from tfcli.layers.rotary import rotate, rotation
from tfcli.models.build import build_model
from tfcli.models.transformer import Decoder, Transformer
from tfcli.recipe.model import ModelSection, PositionLayout, Positions
from tfcli.records.arrays import frozen

_SEEN = 64  # positions whose scores are looked at
_TIMES = 10  # the length
_MOST, _FEWEST = 8192, 300  # positions looked at; so many at least, so that growth shows where a table is short
_GROWTH, _WORSE = 1.1, 1.1
_UNIQUE, _CONSISTENT = 1e-4, 1e-3
_TRAIN = "run `tfcli train --set model.positions=NAME --out RUN`, then `tfcli inspect positions RUN"
_JOINS = {
    "add": "added to the embedding",
    "concat": "concatenated to the embedding",
    "query_key": "added to queries and keys, every layer",
    "rotary": "turns queries and keys, every layer",
    "alibi": "added to the scores, every layer",
    "t5": "added to the scores, every layer",
}


def requirements(
    record: PositionsRecord,
    longer: Callable[[int], PositionsRecord] | None,
    *,
    origin: str = "formula",
    k: int = 1,
    biases: NDArray[np.float32] | None = None,
    buckets: NDArray[np.float32] | None = None,
    beyond: BeyondContext | None = None,
    measure: str = f"{_TRAIN} --loss`",
) -> Requirements:
    """Every requirement with its number, at distance `k`. `longer` makes the table with more positions; None: they end
    with it. `biases` (H, N, N) are added to the scores, of T5 all taken from `buckets` (buckets, H). `beyond` is a
    run's loss by position, which then decides about texts beyond the length; `measure` says how to come by it."""
    long = None if longer is None else longer(min(max(_TIMES * record.length, _FEWEST), _MOST))
    joined = record.merge or ("add" if record.encoding in ("sinusoidal", "learned") else record.encoding)
    data = joined in ("add", "concat")
    where = "part of the vectors that enter" if data else "inside attention: the architecture"
    use = _beyond(record.length, longer is not None, beyond, measure)
    last = _consistent(record, long or record, k, biases), Requirement("in the data", data, None, where)
    found = _bounded(record, long, buckets), _unique(record), use, *last
    return Requirements(record.encoding, origin, _JOINS[joined], found)


def _bounded(record: PositionsRecord, long: PositionsRecord | None, buckets: NDArray[np.float32] | None) -> Requirement:
    values = np.abs((long or record).table if buckets is None else buckets)
    largest, half, of = float(values.max()), len(values) // 2, str(record.length)
    met = bool(np.isfinite(largest))
    if buckets is not None:
        of = f"{len(buckets)} buckets, for any distance"
    elif long is not None:
        met = not values[half:].max() > _GROWTH * values[:half].max()
        of = f"{long.length:,} positions; met: stops growing"
    return Requirement("bounded", met, largest, f"largest |value| of {of}")


def _unique(record: PositionsRecord) -> Requirement:
    rows = record.table[:_MOST].astype(np.float64)
    if len(rows) < 2:
        return Requirement("unique", None, None, f"one {record.rows} alone: give a longer --length")
    squares = (rows**2).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * rows @ rows.T
    np.fill_diagonal(apart, np.inf)
    first, second = np.unravel_index(apart.argmin(), apart.shape)
    smallest = float(np.linalg.norm(rows[first] - rows[second]))  # the products have rounded
    met = smallest > _UNIQUE * float(np.sqrt(squares.mean()))
    return Requirement("unique", met, smallest, f"smallest |difference| of two {record.rows}s")


def _beyond(length: int, longer: bool, beyond: BeyondContext | None, measure: str) -> Requirement:
    """That numbers go on beyond the length says nothing about their use: a run's loss does."""
    if not longer:
        return Requirement("beyond its length", False, float(length), "positions there are, and none beyond")
    if beyond is None:
        return Requirement("beyond its length", None, None, measure)
    within, twice, far = (band.loss for band in beyond.bands)
    measured = f"loss up to 1× the context {within:.2f}, to 2× {twice:.2f}, to 4× {far:.2f}; the last by the first"
    return Requirement("beyond its length", far <= _WORSE * within, far / within, measured)


def _consistent(record: PositionsRecord, long: PositionsRecord, k: int, biases: NDArray[Any] | None) -> Requirement:
    rows = long.table[: max(6 * long.table.shape[1], 64)].astype(np.float64)
    if biases is not None or record.encoding == "rotary":
        value = _spread(_rotary_scores(record) if biases is None else biases)
        measured = f"change of {'q·k' if biases is None else 'a bias'} when query and key move on together"
    elif len(rows) - k >= 4:
        value, measured = fitted(rows, k)[1], f"left by the best linear map r_n → r_n+{k}, on other n (1: all)"
    else:
        return Requirement("consistent distance", None, None, "too few positions: give a longer --length")
    return Requirement("consistent distance", value < _CONSISTENT, value, measured)


def _rotary_scores(record: PositionsRecord) -> NDArray[np.float64]:
    """q_m · k_n of one random q and k of length 1, turned by what the model turns with: (1, N, N)."""
    assert record.d_model is not None and record.frequencies is not None and record.layout is not None
    length = min(record.length, _SEEN)
    by = rotation(torch.arange(length), torch.tensor(record.frequencies), record.layout)
    draw = torch.randn(2, record.d_model, generator=torch.Generator().manual_seed(0))
    query, key = (rotate((one / one.norm()).expand(1, 1, length, -1), by)[0].double() for one in draw)
    return frozen(query @ key.mT, np.float64)


def _spread(scores: NDArray[Any]) -> float:
    """The largest difference of two scores (H, N, N) at the same distance."""
    length = scores.shape[1]
    return float(max(np.ptp(scores.diagonal(k, 1, 2), axis=1).max() for k in range(1 - length, length)))


def formula(
    encoding: str,
    length: int | None = None,
    d_model: int | None = None,
    heads: int | None = None,
    base: float | None = None,
    layout: PositionLayout | None = None,
    k: int = 1,
) -> Described:
    """A formula, of the usual sizes where none are given. Rotary's heads share d_model, or a UsageError says so."""
    size, shared = d_model or SIZE, heads or 1
    if encoding != "alibi" and size % shared:
        raise UsageError(f"--d-model {size} is not divisible by --heads {shared}", "choose a multiple")
    columns = {"alibi": heads or HEADS, "rotary": size // shared}.get(encoding, size)

    def table(positions: int) -> PositionsRecord:
        return positions_table(encoding, positions, columns, base or ModelSection.position_base, layout=layout)

    record = table(length or SIZE)
    shown = min(record.length, _SEEN)
    biases = frozen(alibi_bias(shown, shown, alibi_slopes(columns))[0]) if encoding == "alibi" else None
    return record, requirements(record, table, k=k, biases=biases)


def of_run(
    model: Transformer, name: str, length: int | None = None, side: Side | None = None, **asked: Any
) -> Described:
    """A model's own encoding, with its requirements, as they are `asked` for: by distance `k`, with a loss `beyond`."""
    record, measure = run_positions(model, length, side), f"run `tfcli inspect positions {shlex.quote(name)} --loss`"
    if not isinstance(model, Decoder):
        measure = f"an {model.section.architecture}'s loss does not go on with a text: train a decoder with it"
    longer = None if record.encoding == "learned" else partial(run_positions, model, side=side)
    biases = _biases(model, min(record.length, _SEEN), side) if record.columns == "head" else None
    buckets = frozen(relative_weight(model, record.side).detach().float().cpu()) if record.encoding == "t5" else None
    return record, requirements(record, longer, origin=name, biases=biases, buckets=buckets, measure=measure, **asked)


def compared(
    runs: list[Described],
    length: int | None = None,
    d_model: int | None = None,
    heads: int | None = None,
    base: float | None = None,
    k: int = 1,
) -> list[Described]:
    """Every encoding: those of runs; for the others a formula or, where there is none, what training begins with, with
    as many positions as the first run where no `length` is given. A UsageError where two runs have one encoding."""
    known = dict[str, Described]()
    for record, found in runs:
        if other := known.get(record.encoding):
            both = f"{other[1].origin} and {found.origin} both have {record.encoding} positions"
            raise UsageError(both, "name one of the two")
        known[record.encoding] = (record, found)
    length, d_model, heads = length or (runs[0][0].length if runs else SIZE), d_model or SIZE, heads or HEADS
    head_dim = max(2, d_model // heads // 2 * 2)
    sizes = {"sinusoidal": (d_model, None), "rotary": (head_dim, None), "alibi": (None, heads)}  # as of `formula`
    untrained = ModelSection(d_model=-(-d_model // heads) * heads, num_layers=1, num_heads=heads, max_seq_len=length)

    def described(encoding: Positions) -> Described:
        if encoding in sizes:
            return formula(encoding, length, *sizes[encoding], base=base, k=k)
        model = build_model(replace(untrained, positions=encoding, vocab_size=1))
        record, found = of_run(model, "untrained", length, k=k)
        return record, replace(found, requirements=tuple(map(_of_training, found.requirements)))

    encodings: tuple[Positions, ...] = ("sinusoidal", "learned", "rotary", "alibi", "t5")
    return [known.get(encoding) or described(encoding) for encoding in encodings]


def _of_training(one: Requirement) -> Requirement:
    """Of an untrained model: not measured where random numbers decide, and not the construction."""
    if one.met is None or one.name == "bounded" or (one.name in ("unique", "consistent distance") and one.value):
        return replace(one, met=None, value=None, measured=f"{_TRAIN}{' --loss' * (one.met is None)}`")
    return one


def _biases(model: Transformer, length: int, side: Side | None) -> NDArray[np.float32]:
    """What the model adds to the scores. Shape: (H, N, N)."""
    of = (side or "source") if model.section.architecture == "encoder-decoder" else None
    with torch.inference_mode():
        bias: Tensor = model.get_submodule(f"{stack_name(of)}.positions")(Span(0, length)).bias
    return frozen(bias[0].float().cpu())
