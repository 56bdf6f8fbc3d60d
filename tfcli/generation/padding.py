"""Padding: texts of different length side by side, as an encoder reads them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def padded(texts: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Texts filled up at the right, and the mask that says what is text; None where no text is filled up.

    Shape:
        returns: two of (B, S)
    """
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[pad] * (longest - len(text))] for text in texts], dtype=torch.long, device=device)
    if all(len(text) == longest for text in texts):
        return ids, None
    # Told by length: a text may hold the id of padding as well.
    lengths = torch.tensor([[len(text)] for text in texts], device=device)
    return ids, torch.arange(longest, device=device) < lengths
