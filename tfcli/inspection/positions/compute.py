"""Positional encodings as numbers: tables, dot products, and what shifting a text changes."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.data.batch import Batch
from tfcli.data.dataset import PreparedDataset
from tfcli.data.loader import are_news
from tfcli.errors import UsageError
from tfcli.inspection.positions import BeyondContext, LossBand, PositionsRecord, ShiftRecord
from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.positions import sinusoidal_encoding
from tfcli.layers.relative_bias import relative_buckets
from tfcli.layers.rotary import rotary_frequencies, rotation
from tfcli.models.objective import scores_of_labels
from tfcli.models.transformer import Decoder, Transformer, extend_context
from tfcli.recipe.model import JOINED_TO_EMBEDDINGS, ModelSection, PositionLayout
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun

_FORMULAS = ("sinusoidal", "rotary", "alibi")  # encodings that need no run
Side = Literal["source", "target"]


def positions_table(
    encoding: str,
    length: int,
    size: int,
    base: float = ModelSection.position_base,
    *,
    layout: PositionLayout | None = None,
    scaling: float = 1.0,
    offset: int = 0,
) -> PositionsRecord:
    """The table of a formula; a UsageError where the encoding has none, or `size` dimensions make no pairs.
    sinusoidal, of D = `size`: what is joined to the embeddings. rotary, of Dh: the cosine of the angle by which pair i
    is turned in column 2i, its sine in column 2i + 1, whichever dimensions the layout pairs. alibi, of H: what head h
    adds to the score of a key at distance k, in row k and column h. Without a `layout`, sinusoidal is interleaved and
    rotary has halves. Positions are divided by `scaling`, and begin at `offset`: of sinusoidal alone."""
    if encoding == "none":
        choices = f"choose {', '.join(_FORMULAS)} or a run with some"
        raise UsageError("Without positions there is nothing to show", choices)
    if encoding not in _FORMULAS:
        problem = f"Positions that are learned ({encoding}) have no formula"
        raise UsageError(problem, "name a run that was trained with them")
    if encoding == "alibi":
        # The last of `length` queries sees the keys at the distances length − 1 … 0; + 0.0 makes −0 a 0.
        return _biases("alibi", length, alibi_bias(1, length, alibi_slopes(size))[0, :, 0].T.flip(0) + 0.0)
    if encoding == "rotary":
        if size % 2:
            raise UsageError(f"Rotary positions turn pairs of dimensions, and {size} is odd", "choose an even size")
        whole = ModelSection(head_dim=size, position_base=base, position_layout=layout, position_scaling=scaling)
        return _rotary(whole, length)
    if (layout := layout or "interleaved") == "halves" and size % 2:
        problem = f"Half sines and half cosines need an even size, and {size} is odd"
        raise UsageError(problem, "choose an even one, or interleaved")
    table = sinusoidal_encoding(length, size, base, layout=layout, offset=offset, scaling=scaling)
    return _vectors("sinusoidal", table, base=base, layout=layout, scaling=scaling, first=offset)


def run_positions(model: Transformer, length: int | None = None, side: Side | None = None) -> PositionsRecord:
    """The table that a trained model uses, of its whole context or of the first `length` positions; where the sides of
    an encoder-decoder have learned a table each, that of the source, or of `side`. A UsageError where there is none."""
    section, length = model.section, length or model.section.max_seq_len
    if side and section.architecture != "encoder-decoder":
        raise UsageError(f"The run is no encoder-decoder, and has no {side} side", "leave --side out")
    if section.positions in ("learned", "t5"):
        own = (side or "source") if section.architecture == "encoder-decoder" else None
        return (_learned if section.positions == "learned" else _relative)(model, length, own)
    if section.positions == "rotary":
        return _rotary(section, length)
    size = section.num_heads if section.positions == "alibi" else section.position_size
    about: dict[str, Any] = {"layout": section.layout, "scaling": section.position_scaling}
    about |= {"base": section.position_base, "offset": section.position_offset}
    merge = section.position_merge if section.positions in JOINED_TO_EMBEDDINGS else None
    return replace(positions_table(section.positions, length, size, **about), merge=merge)


def similarity_by_distance(table: NDArray[Any]) -> NDArray[np.float64]:
    """For k = 0, 1, …: the mean over n of the cosine between r_n and r_{n+k}. Shape: (N, D) → (N,)."""
    rows = table.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    # Each row's autocorrelation over n, by the Wiener–Khinchin theorem: N log N instead of N² for long tables.
    spectrum = np.fft.rfft(rows, n=2 * len(rows), axis=0)
    sums = np.fft.irfft((spectrum * spectrum.conj()).sum(axis=1), n=2 * len(rows))[: len(rows)]
    return sums / np.arange(len(rows), 0, -1)


def _rotary(section: ModelSection, length: int) -> PositionsRecord:
    frequencies = rotary_frequencies(section, length)
    by = rotation(torch.arange(length), frequencies, section.layout, section.rotary_gain)
    # A rotation holds the cosine and the sine of each pair twice, where its layout has the two dimensions.
    half = by.cosines.shape[1] // 2
    first = slice(half) if by.layout == "halves" else slice(0, None, 2)
    about: dict[str, Any] = {"stretching": section.position_scaling_kind, "frequencies": frozen(frequencies, float)}
    about |= {"base": section.position_base, "layout": section.layout, "scaling": section.position_scaling}
    return _vectors("rotary", torch.stack((by.cosines[:, first], by.sines[:, first]), dim=2).flatten(1), **about)


def _learned(model: Transformer, length: int, side: Side | None) -> PositionsRecord:
    section = model.section
    if length > section.max_seq_len:
        problem = f"The run has learned {section.max_seq_len} positions, and --length is {length}"
        raise UsageError(problem, f"choose 1 to {section.max_seq_len}")
    name = "target_embedding.positions" if side == "target" else "embedding.positions"
    if section.position_merge == "query_key":
        name = f"{stack_name(side)}.positions.table"
    table, first = model.get_parameter(name), section.position_offset
    return _vectors("learned", table[first : first + length], first=first, merge=section.position_merge, side=side)


def _relative(model: Transformer, length: int, side: Side | None) -> PositionsRecord:
    """T5's bias, whose buckets are written out as the distances, from query to key, that they hold."""
    both_ways = model.section.architecture == "encoder" or side == "source"
    first, weight = 1 - length if both_ways else 0, relative_weight(model, side)
    distances, most = -torch.arange(first, length, device=weight.device), model.section.position_max_distance
    buckets = relative_buckets(distances, buckets=len(weight), max_distance=most, bidirectional=both_ways)
    return _biases("t5", length, weight[buckets], first=first, side=side)


def relative_weight(model: Transformer, side: Side | None) -> Tensor:
    """T5's numbers. Shape: (buckets, H)."""
    return model.get_parameter(f"{stack_name(side)}.positions.relative_bias.weight")


def stack_name(side: Side | None) -> str:
    """The stack that has a side's positions; None: the only one of a model."""
    return {"source": "encoder", "target": "decoder"}[side] if side else "stack"


def _vectors(encoding: str, table: Tensor, *, base: float | None = None, **about: Any) -> PositionsRecord:
    values = frozen(table.detach().float().cpu())
    about |= {"table": values, "similarity": frozen(similarity_by_distance(values))}
    return PositionsRecord(encoding, base, *values.shape, **about)


def _biases(encoding: str, length: int, table: Tensor, **about: Any) -> PositionsRecord:
    about |= {"table": frozen(table.detach().float().cpu()), "rows": "distance", "columns": "head"}
    return PositionsRecord(encoding, None, length, d_model=None, similarity=None, **about)


_SMALLEST = 1e-6  # share of a table's largest direction below which one holds nothing but what float32 rounds


def shift(record: PositionsRecord, k: int) -> ShiftRecord:
    """The rotation that carries sinusoidal and rotary positions by `k`, a pair (sin nω, cos nω) for any n by [[cos kω,
    sin kω], [−sin kω, cos kω]]; of a learned table the best linear map. A UsageError of biases or few rows."""
    if record.columns == "head":
        problem = f"{record.encoding} adds numbers to scores, and has no vectors to carry"
        raise UsageError(problem, "choose sinusoidal or rotary")
    if not 0 < k < record.length - 2:
        problem = f"A shift of {k} leaves no pairs of {record.length} positions"
        raise UsageError(problem, f"choose 1 to {record.length - 3}")
    rows = record.table.astype(np.float64)
    if record.base is None:
        matrix, residual = fitted(rows, k)
        return ShiftRecord(record.encoding, k, frozen(matrix), angles=None, pairs=None, residual=residual)
    size = rows.shape[1]
    pairs = np.arange(size // 2 * 2).reshape(-1, 2)  # a rotary table holds its pairs side by side in both layouts
    if record.encoding == "sinusoidal" and record.layout == "halves":
        pairs = pairs.reshape(2, -1).T
    turns = -2.0 * np.arange(len(pairs)) / size
    angles = k / record.scaling * record.base**turns if record.frequencies is None else k * record.frequencies
    matrix, (first, second) = np.zeros((size, size)), pairs.T
    matrix[first, first] = matrix[second, second] = np.cos(angles)
    matrix[first, second] = np.sin(angles) if record.encoding == "sinusoidal" else -np.sin(angles)
    matrix[second, first] = -matrix[first, second]
    residual = _residual(rows[k:], rows[:-k] @ matrix.T, pairs.ravel())
    turned = frozen(angles), frozen(pairs, np.int64), residual
    return ShiftRecord(record.encoding, k, frozen(matrix), *turned, alone=size % 2)


def fitted(rows: NDArray[np.float64], k: int) -> tuple[NDArray[Any], float]:
    """The matrix M of the least |r_{n+k} − M r_n| over even n, and what it leaves over odd n; of rows (N, D)."""
    before, after = rows[:-k], rows[k:]
    solution = np.linalg.lstsq(before[0::2], after[0::2], rcond=_SMALLEST)[0]
    return solution.T, _residual(after[1::2], before[1::2] @ solution, np.arange(rows.shape[1]))


def _residual(after: NDArray[np.float64], carried: NDArray[np.float64], columns: NDArray[np.int64]) -> float:
    size = np.linalg.norm(after[:, columns])
    return float(np.linalg.norm((after - carried)[:, columns]) / size) if size else 0.0


_TIMES = (1, 2, 4)  # the context
_TOKENS, _TEXTS, _BINS = 1 << 15, 32, 64


@torch.inference_mode()
def beyond_context(run: LoadedRun, data: PreparedDataset) -> BeyondContext:
    """The mean loss of the tokens up to 1×, from 1× to 2×, and from 2× to 4× the context, in windows of 4× from the
    validation part. Learned positions end with the context, and so do the windows; other tables are made longer."""
    require_decoder(run)
    data.require_tokenizer(run.tokenizer)
    context, learned = run.recipe.context, run.config.model.positions == "learned"
    longest, view = context if learned else _TIMES[-1] * context, data.text("validation")
    texts = min(_TEXTS, max(1, _TOKENS // longest), (len(view) - 1) // longest)
    if not texts:
        problem = f"The validation text has {len(view):,} tokens, and one window takes {longest + 1:,}"
        raise UsageError(problem, "leave --loss out, or train on more text")
    if not learned:
        extend_context(run.model, longest)
    starts = np.linspace(0, len(view) - longest - 1, texts).astype(np.int64)
    tokens = view.padded(starts, np.full(texts, longest + 1), run.config.roles.pad)
    read = [scores_of_labels(run.model, Batch(text[None, :-1], text[None, 1:]), run.device)[0].cpu() for text in tokens]
    losses = np.where(are_news(tokens, run.config.roles), torch.stack(read).numpy(), np.nan)
    edges = [0, *(times * context for times in _TIMES if times * context <= longest)]
    bands = tuple(LossBand(a, b, float(np.nanmean(losses[:, a:b]))) for a, b in pairwise(edges))
    size = -(-longest // _BINS)
    bins = [np.nanmean(losses[:, at : at + size]) for at in range(0, longest, size)]
    return BeyondContext(context, texts, bands, bin=size, curve=frozen(bins), learned=learned)


def require_decoder(run: LoadedRun) -> None:
    """Refuse, by a UsageError, a model whose loss is not that of a text read on and on."""
    if not isinstance(run.model, Decoder):
        problem = f"An {run.architecture}'s loss does not go on with a text"
        raise UsageError(problem, "leave --loss out, or name a decoder")
