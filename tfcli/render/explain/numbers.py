"""The numbers of a matrix as cells of equal width."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tfcli.records.explain import MatrixKind

HIDDEN = "−∞"


def formatter(values: NDArray[np.float32], kind: MatrixKind) -> Callable[[float], str]:
    """How a matrix writes its numbers: whole ones without decimals, shares of 1 without the leading 0 and "·" where
    they are exactly 0, others with two decimals, or with more where all of them are small.

    >>> signed = formatter(np.array([[-0.456, 12.0]]), "signed")
    >>> signed(-0.456), signed(12.0), formatter(np.array([[0.0002, 0.9998]]), "weights")(0.0002)
    ('-0.46', '12.00', '.0002')
    """
    finite = values[np.isfinite(values)]
    if kind == "weights":
        small = finite[finite > 0]
        digits = 4 if small.size and small.min() < 0.0005 else 3
        return lambda value: _share(value, digits)
    if not (finite % 1).any():
        return lambda value: _signed(value, 0)
    digits = _decimals(float(np.abs(finite).max()))
    return lambda value: _signed(value, digits)


def _share(value: float, digits: int) -> str:
    if value == 0:
        return "·"
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text.rstrip("0").rstrip(".")


def _signed(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return HIDDEN
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no "-0.00"


def _decimals(largest: float) -> int:
    """Two, or so many more that the largest number has two digits, up to five."""
    return min(5, max(2, 1 - math.floor(math.log10(largest)))) if largest else 0
