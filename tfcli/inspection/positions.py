"""Positional encodings as tables, and how alike two positions are by their distance."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.layers.rotary import rotation
from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.models.transformer import Transformer
from tfcli.records.arrays import frozen
from tfcli.records.positions import PositionsRecord

ENCODINGS = ("sinusoidal", "rotary")
"""Encodings that are a formula. Learned ones are read from a run."""


def positions_table(encoding: str, length: int, d_model: int, base: float) -> PositionsRecord:
    """The table of a formula.

    sinusoidal: (length, D), what is added to the embeddings. rotary: (length, Dh), with D the size of a head: the
    cosines of the angles by which pair i is turned in the even columns, the sines in the odd ones.

    Raises:
        UsageError: the encoding is not known, or is no formula, or a size makes no table.
    """
    if encoding == "learned":
        raise UsageError("A learned embedding has no formula", "name a run that was trained with it")
    if encoding not in ENCODINGS:
        raise UsageError(f"There is no positional encoding {encoding!r}", f"choose {', '.join(ENCODINGS)} or a run")
    if length < 1 or d_model < 1:
        raise UsageError(f"A table of {length} positions × {d_model} dimensions is empty", "choose sizes of 1 or more")
    if not base > 1:
        raise UsageError(f"A base of {base:g} gives no growing wavelengths", "choose a base above 1")
    if encoding == "sinusoidal":
        table = sinusoidal_encoding(length, d_model, base).numpy()
    else:
        if d_model % 2:
            raise UsageError(f"Rotary positions turn pairs of dimensions, and {d_model} is odd", "choose an even size")
        table = _interleaved(*rotation(torch.arange(length), d_model, base))
    return _record(encoding, base, table)


def run_positions(model: Transformer, length: int | None = None) -> PositionsRecord:
    """The table that a trained model uses, of its whole context or of the first `length` positions.

    Raises:
        UsageError: `length` is below 1, or beyond what a learned table holds.
    """
    section = model.section
    length = section.max_seq_len if length is None else length
    if section.positions != "learned":
        size = section.size_per_head if section.positions == "rotary" else section.d_model
        return positions_table(section.positions, length, size, section.position_base)
    if not 1 <= length <= section.max_seq_len:
        raise UsageError(
            f"The run has learned {section.max_seq_len} positions, and --length is {length}",
            f"choose 1 to {section.max_seq_len}",
        )
    table = dict(model.named_parameters())["embedding.positions"].detach().cpu().numpy()[:length]
    return _record("learned", None, table)


def similarity_by_distance(table: NDArray[Any]) -> NDArray[np.float64]:
    """For k = 0, 1, …: the mean over n of the cosine between r_n and r_{n+k}.

    Shape:
        table: (N, D)
        returns: (N,)
    """
    rows = table.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    # Each row's autocorrelation over n, by the Wiener–Khinchin theorem: N log N instead of N² for long tables.
    spectrum = np.fft.rfft(rows, n=2 * len(rows), axis=0)
    sums = np.fft.irfft((spectrum * spectrum.conj()).sum(axis=1), n=2 * len(rows))[: len(rows)]
    return sums / np.arange(len(rows), 0, -1)


def _interleaved(cosines: torch.Tensor, sines: torch.Tensor) -> NDArray[np.float32]:
    half = cosines.shape[1] // 2
    table = np.empty(cosines.shape, dtype=np.float32)
    table[:, 0::2], table[:, 1::2] = cosines[:, :half].numpy(), sines[:, :half].numpy()
    return table


def _record(encoding: str, base: float | None, table: NDArray[Any]) -> PositionsRecord:
    length, d_model = table.shape
    return PositionsRecord(encoding, base, length, d_model, frozen(table), frozen(similarity_by_distance(table)))
