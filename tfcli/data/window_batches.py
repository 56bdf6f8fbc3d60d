"""Data loader of windows of text, the part that causal and masked batches share."""

from collections.abc import Iterator
from typing import Any

from tfcli.data.documents import DocumentPlan
from tfcli.data.spans import Spans
from tfcli.data.views import TokenStreamView
from tfcli.data.windows import WindowPlan
from tfcli.records.roles import TokenRoles


class WindowBatches:
    """Batches of windows, side by side in the stream, so that no token is read twice in an epoch.

    Args:
        batch_tokens: places of a batch, padding included, instead of `batch_size` windows; at least `context`.
        documents: begin windows where documents begin, instead of anywhere in the stream.
        sample: tokens of an evenly spread part that alone `whole` is to yield; 0: all.
    """

    label_offset = 0
    """1 where the token after a window's last is needed as well, for its label."""

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        context: int,
        batch_size: int,
        batch_tokens: int | None = None,
        seed: int,
        documents: bool = False,
        sample: int = 0,
    ) -> None:
        self._view, self._roles, self._pad, self._seed = view, roles, roles.pad, seed
        self._plan: DocumentPlan | WindowPlan
        if documents:
            sizes: dict[str, Any] = {"context": context, "batch_size": batch_size, "batch_tokens": batch_tokens}
            self._plan = DocumentPlan(view.documents, self.label_offset, seed=seed, sample=sample, **sizes)
        else:
            rows = batch_size if batch_tokens is None else batch_tokens // context
            self._plan = WindowPlan(len(view) - self.label_offset, context, rows, seed, sample)

    def spans(self) -> Iterator[Spans]:
        """The windows of each batch of `whole`, in its order."""
        return self._plan.whole()

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""
        return self._plan.tokens_per_batch
