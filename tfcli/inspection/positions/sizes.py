"""How large the table of a formula is."""

from tfcli.errors import UsageError

SIZE = 64
"""Positions and dimensions where nobody says so: a table that still fits into a terminal."""

HEADS = 8
"""Those of ALiBi, as in the paper's example (Press et al. 2022, section 3)."""


def columns_of(encoding: str, d_model: int | None, heads: int | None) -> int:
    """Columns of a formula's table: D of sinusoidal, Dh of rotary, H of alibi.

    Raises:
        UsageError: the heads do not divide d_model.
    """
    if encoding == "alibi":
        return heads or HEADS
    size, shared = d_model or SIZE, heads or 1
    if size % shared:
        raise UsageError(f"--d-model {size} is not divisible by --heads {shared}", "choose a multiple")
    return size // shared if encoding == "rotary" else size
