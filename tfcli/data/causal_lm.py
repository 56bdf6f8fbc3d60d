"""Causal language model batches: every token is predicted from those before it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.windows import Spans, WindowBatches
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
    """Batches for `clm`: position t predicts the token after it; a window's last input, the token after the window."""

    label_offset = 1

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Batches without end, from number `start` on."""
        for _, spans in self._plan.training(start):
            yield self._batch(spans)

    def whole(self) -> Iterator[Batch]:
        """Every token but the begin tokens as a label exactly once, always in the same order."""
        for spans in self._plan.whole():
            yield self._batch(spans)

    def _batch(self, spans: Spans) -> Batch:
        tokens = self._view.padded(spans.starts, spans.lengths + 1, self._pad)
        present = spans.present()
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(present, tokens[:, :-1], self._pad)
        scored = present & are_news(tokens, self._roles)
        return Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=spans.lengths)
