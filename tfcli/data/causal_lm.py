"""Causal language model batches: every token is predicted from those before it."""

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.windows import WindowBatches, present
from tfcli.records.roles import TokenRoles


def are_news(tokens: NDArray[np.integer], roles: TokenRoles) -> NDArray[np.bool_]:
    """Which tokens but the first of each row are predicted: not those that every text begins with, which would only
    flatter the loss, and no end right behind another one.

    Shape: tokens (…, 1 + T); result (…, T)
    """
    following = tokens[..., 1:]
    news = np.ones(following.shape, dtype=bool)
    for token in {*roles.text_prefix}.difference(roles.end):
        news &= following != token
    for end in roles.end if roles.text_start is not None else ():
        news &= (following != end) | (tokens[..., :-1] != end)
    return news


class CausalBatches(WindowBatches):
    """Batches for `clm`: position t predicts the token after it; its last one, the token after the window. Each token
    but those that begin texts is a label once an epoch."""

    label_offset = 1

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        spans, pad = self._spans(rows), self._roles.pad
        tokens = self._view.padded(spans.starts, spans.lengths + 1, pad)
        read = present(spans.lengths)
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(read, tokens[:, :-1], pad)
        scored = read & are_news(tokens, self._roles)
        return Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=spans.lengths)
