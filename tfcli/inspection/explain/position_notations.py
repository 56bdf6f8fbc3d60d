"""How the lectures write sinusoidal positions, and what happens where one of them is read to the letter."""

import numpy as np
import torch

from tfcli.inspection.positions.shift import fitted
from tfcli.records.explain import NotationName
from tfcli.records.position_notations import Spelling

SPELLINGS = (
    Spelling(
        "Bishop",
        "bishop",
        ("r_ni = sin(n / L^(i/D))      i even", "r_ni = cos(n / L^((i−1)/D))  i odd"),
        "x̃_n = x_n + r_n",
        "position n, dimension i, size D, base L",
    ),
    Spelling("UDL", "udl", (), "X + Π, every column of Π another", "a token a column, size D"),
    Spelling("CS224n", "cs224n", (), "x_1:n and the position representation added", "token i, size d"),
    Spelling(
        "INF721",
        "inf721",
        ("PE_(t,2i)   = sin(t / 10000^(2i/d))", "PE_(t,2i+1) = cos(t / 10000^(2i/d))"),
        "x^<t> and its PE added",
        "position t, pair i, size d, base 10000",
    ),
    Spelling(
        "Encoder notes",
        None,
        ("p_j^(i) = sin(i / 10000^(j/D))      j even", "p_j^(i) = cos(i / 10000^((j−1)/D))  j odd"),
        "x^(i) = e^(i) + p^(i)",
        "position i, dimension j, size D, base 10000",
    ),
)


def worked(name: NotationName, n: int, i: int, size: int, base: float) -> str:
    """One number of the table, as the notation writes it; those without a formula take Bishop's.

    >>> worked("bishop", 2, 3, 4, 10_000.0)
    'r_2,3 = cos(2 / 10000^(2/4)) = cos 0.0200 = 0.9998'
    """
    pair, is_odd = divmod(i, 2)
    angle = n / base ** (2 * pair / size)
    wave = "cos" if is_odd else "sin"
    value = np.cos(angle) if is_odd else np.sin(angle)
    exponent = f"2·{pair}/{size}" if name == "inf721" else f"{2 * pair}/{size}"
    cell = {"bishop": f"r_{n},{i}", "udl": f"π_{i},{n}", "cs224n": f"p_{n},{i}", "inf721": f"PE_({n},{i})"}[name]
    return f"{cell} = {wave}({n} / {base:g}^({exponent})) = {wave} {angle:.4f} = {value:.4f}"


def slips(size: int, base: float) -> tuple[str, ...]:
    """What the lectures print otherwise or leave open, with what follows from it at this size."""
    undefined = undefined_dimensions(size)
    listed = ", ".join(map(str, undefined[:8])) + (", …" if len(undefined) > 8 else "")
    missing = f"Read literally, {len(undefined)} of {size} dimensions get no number ({listed}): " if undefined else ""
    return (
        "INF721 adds 'if i is even' and 'if i is odd' to formulas of the pair index i. "
        f"{missing}2i and 2i + 1 say already which is sine and which is cosine.",
        "Bishop does not say where i begins. From 0 neighbours share a wavelength; from 1 the first cosine and the "
        "last sine stand alone, and no linear map carries n to n + 1: the best one leaves "
        f"{from_one(size, base):.2g} of |r_n+1|, and {from_zero(size, base):.0e} where i begins at 0.",
        "Which letter is the position: n, t, and i in the encoder notes; i is the dimension in Bishop, the pair in "
        "INF721 and the token in CS224n.",
        "UDL's formula adds Π to V, K and Q, after the projections; its sentence adds it to X, before them.",
        "None says that D is even. An odd one ends on a sine whose cosine is missing, and no rotation carries it"
        + (f": here dimension {size - 1}." if size % 2 else "."),
    )


def undefined_dimensions(size: int) -> list[int]:
    """Dimensions without a formula where INF721's "if i is even" is taken of the pair index.

    >>> undefined_dimensions(8)
    [1, 2, 5, 6]
    """
    defined = {2 * pair + pair % 2 for pair in range((size + 1) // 2)}
    return [i for i in range(size) if i not in defined]


def from_zero(size: int, base: float) -> float:
    """What the best linear map from r_n to r_{n+1} leaves, by |r_{n+1}|, with i from 0."""
    return _left_over(np.arange(size), size, base)


def from_one(size: int, base: float) -> float:
    """The same with i from 1 to D: cos n first, then pairs, and last a sine alone."""
    return _left_over(np.arange(1, size + 1), size, base)


def _left_over(dimensions: "np.ndarray[tuple[int], np.dtype[np.int64]]", size: int, base: float) -> float:
    positions = np.arange(max(64, 6 * size))[:, None]
    angles = positions / base ** ((dimensions - dimensions % 2) / size)
    table = np.where(dimensions % 2, np.cos(angles), np.sin(angles))
    return fitted(torch.from_numpy(table).float().double().numpy(), 1)[1]
