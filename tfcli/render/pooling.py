"""Making a map smaller without losing its peaks."""

import numpy as np
from numpy.typing import NDArray


def max_pool(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Blocks of `rows` × `columns` become their value furthest from 0, sign kept; the last may be smaller.

    A mean would melt one strong weight among many weak ones; the largest keeps it in sight. NaN (no value)
    gives way to any value.

    Shape: (R, C) to (⌈R / rows⌉, ⌈C / columns⌉).
    """
    return _pool(_pool(values, rows, axis=0), columns, axis=1)


def _pool(values: NDArray[np.float32], size: int, axis: int) -> NDArray[np.float32]:
    if size == 1:
        return values
    starts = np.arange(0, values.shape[axis], size)
    highest = np.fmax.reduceat(values, starts, axis=axis)
    lowest = np.fmin.reduceat(values, starts, axis=axis)
    return np.where(-lowest > highest, lowest, highest)
