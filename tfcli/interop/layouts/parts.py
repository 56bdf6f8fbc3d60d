"""Parts that families have alike under names of their own: norms, affine maps, and the ids of special tokens."""

from typing import Any

from tfcli.interop.layout import TensorMap
from tfcli.records.roles import TokenRoles


def gain(theirs: str, ours: str, size: int) -> TensorMap:
    """The gain of a norm over `size` numbers: ones where a run's norms have none."""
    return TensorMap(f"{theirs}.weight", (f"{ours}.weight",), absent=(1.0, (size,)))


def norm(theirs: str, ours: str, size: int) -> list[TensorMap]:
    """Gain and bias of a norm over `size` numbers."""
    return [gain(theirs, ours, size), TensorMap(f"{theirs}.bias", (f"{ours}.bias",), absent=(0.0, (size,)))]


def affine(theirs: str, *ours: str, size: int, transposed: bool = False, groups: int = 1) -> list[TensorMap]:
    """Matrix and bias of an affine map onto `size` numbers: zeros where a run has no bias there.

    Args:
        ours: one map, or those whose results lie side by side in theirs.
        transposed: whether the checkpoint keeps the matrix as (in, out).
        groups: how often they lie side by side, a part of each.
    """
    return [
        TensorMap(f"{theirs}.weight", tuple(f"{name}.weight" for name in ours), transposed, groups=groups),
        TensorMap(f"{theirs}.bias", tuple(f"{name}.bias" for name in ours), absent=(0.0, (size,)), groups=groups),
    ]


def written_tokens(roles: TokenRoles) -> dict[str, Any]:
    """The settings for special tokens that every family has."""
    ends = [roles.eos, *roles.more_ends]
    return {
        "bos_token_id": roles.bos,
        "eos_token_id": ends if roles.more_ends else roles.eos,
        "pad_token_id": roles.pad,
    }
