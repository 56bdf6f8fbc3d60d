"""Tensors compared bit by bit: no rounding is forgiven, NaN equals itself, and 0 is not −0."""

from collections.abc import Mapping
from itertools import chain

import torch
from torch import Tensor

from tfcli.verification.check import Finding, at_most


def same_bits(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding:
    """How many numbers differ in any bit. A tensor that one side lacks differs in all of its numbers, and so does one
    of another shape or type."""
    apart = {name: _apart(ours.get(name), theirs.get(name)) for name in dict.fromkeys(chain(theirs, ours))}
    first = next((name for name, count in apart.items() if count), "")
    return at_most(sum(apart.values()), 0, "numbers", f"the first are in {first}" if first else "")


def _apart(ours: Tensor | None, theirs: Tensor | None) -> int:
    if ours is None or theirs is None:
        present = theirs if ours is None else ours
        assert present is not None
        return present.numel()
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(ours.numel(), theirs.numel())
    if not ours.numel():
        return 0
    bits, others = (tensor.detach().cpu().contiguous().view(-1).view(torch.uint8) for tensor in (ours, theirs))
    return int((bits != others).view(ours.numel(), -1).any(-1).sum())
