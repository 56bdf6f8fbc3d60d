"""The step from one position to another as a matrix: r_{n+k} = R_k r_n for every n (Bishop and Bishop 2024, 12.1.9)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.records.arrays import frozen
from tfcli.records.positions import PositionsRecord, ShiftRecord

_SMALLEST = 1e-6
"""Directions of the table that are smaller than this share of its largest hold nothing but what float32 rounds."""


def shift(record: PositionsRecord, k: int) -> ShiftRecord:
    """The rotation that carries sinusoidal and rotary positions by `k`; for a learned table the best linear map.

    A pair (sin nω, cos nω) is carried by [[cos kω, sin kω], [−sin kω, cos kω]], whatever n is.

    Raises:
        UsageError: biases are no vectors, or the table has not enough rows.
    """
    if record.columns == "head":
        raise UsageError(
            f"{record.encoding} adds numbers to scores, and has no vectors to carry", "choose sinusoidal or rotary"
        )
    if not 0 < k < record.length - 2:
        raise UsageError(
            f"A shift of {k} leaves no pairs of {record.length} positions", f"choose 1 to {record.length - 3}"
        )
    rows = record.table.astype(np.float64)
    if record.base is None:
        matrix, residual = fitted(rows, k)
        return ShiftRecord(record.encoding, k, frozen(matrix), None, None, residual)
    size = rows.shape[1]
    pairs = _pairs(record)
    if record.frequencies is None:
        angles = k / record.scaling * record.base ** (-2.0 * np.arange(len(pairs)) / size)
    else:
        angles = k * record.frequencies
    matrix = _rotation(size, pairs, angles if record.encoding == "sinusoidal" else -angles)
    paired = pairs.ravel()
    residual = _residual(rows[k:], rows[:-k] @ matrix.T, paired)
    return ShiftRecord(
        record.encoding, k, frozen(matrix), frozen(angles), frozen(pairs, np.int64), residual, size - len(paired)
    )


def fitted(rows: NDArray[np.float64], k: int) -> tuple[NDArray[Any], float]:
    """The matrix M of the least |r_{n+k} − M r_n| over even n, and what it leaves over odd n.

    Shape:
        rows: (N, D)
        returns: (D, D)
    """
    before, after = rows[:-k], rows[k:]
    solution = np.linalg.lstsq(before[0::2], after[0::2], rcond=_SMALLEST)[0]
    return solution.T, _residual(after[1::2], before[1::2] @ solution, np.arange(rows.shape[1]))


def _pairs(record: PositionsRecord) -> NDArray[np.int64]:
    """Dimensions that share a wavelength; a rotary table holds its pairs side by side in both layouts."""
    number = record.table.shape[1] // 2
    if record.encoding == "sinusoidal" and record.layout == "halves":
        return np.stack((np.arange(number), np.arange(number) + number), axis=1)
    return np.arange(2 * number).reshape(number, 2)


def _rotation(size: int, pairs: NDArray[np.int64], angles: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.zeros((size, size))
    first, second = pairs[:, 0], pairs[:, 1]
    matrix[first, first] = matrix[second, second] = np.cos(angles)
    matrix[first, second], matrix[second, first] = np.sin(angles), -np.sin(angles)
    return matrix


def _residual(after: NDArray[np.float64], carried: NDArray[np.float64], columns: NDArray[np.int64]) -> float:
    size = np.linalg.norm(after[:, columns])
    return float(np.linalg.norm((after - carried)[:, columns]) / size) if size else 0.0
