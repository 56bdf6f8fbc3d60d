"""Causal batches: every token is predicted from those before it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.spans import Spans
from tfcli.data.views import TokenStreamView
from tfcli.data.window_batches import WindowBatches
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
    """Batches for `clm`: position t predicts the token after it.

    The label of a window's last input is the token after the window.

    Args:
        batch_tokens: places of a batch, padding included, instead of `batch_size` windows; at least `context`.
        documents: begin windows where documents begin, instead of anywhere in the stream.
        sample: tokens of an evenly spread part that alone `whole` is to yield; 0: all.
    """

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        batch_size: int,
        batch_tokens: int | None = None,
        context: int,
        seed: int,
        documents: bool = False,
        sample: int = 0,
    ) -> None:
        super().__init__(
            view,
            roles,
            label_offset=1,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            context=context,
            seed=seed,
            documents=documents,
            sample=sample,
        )
        self._roles = roles

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
