"""Packing: windows of tokens cut from a stream of documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import MASKS, ORDER, Batch, Ints, Plan, PlannedBatches, evenly, generator, plan_by_length
from tfcli.data.dataset import TokenStreamView
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles


def filled(rows: Sequence[Sequence[int] | Ints], pad: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Rows filled up on the right, and where they have tokens. Shape: each (B, longest of them)."""
    there = present(np.array([len(row) for row in rows]))
    ids = np.full(there.shape, pad, dtype=np.int64)
    ids[there] = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    return ids, there


def present(lengths: Ints) -> NDArray[np.bool_]:
    """Where sequences of these lengths have tokens, once padded. Shape: lengths (B,); result (B, longest of them)."""
    return np.less(np.arange(lengths.max()), lengths[:, None])


@dataclass(frozen=True, eq=False)
class Spans:
    """The windows of one batch: where each starts in the stream, and how many tokens it has. Shape: (B,)."""

    starts: Ints
    lengths: Ints


class WindowPlan:
    """Which windows of a stream make which batch; a row is the place in the stream where a window starts. A part with
    fewer windows than a batch makes one by repeating them. `positions`, at least 1, are the places in the stream where
    a window may have a token; a stream of fewer than `context` makes one shorter window. `sample`: tokens of an evenly
    spread part that alone `whole` is to yield; 0: all."""

    def __init__(self, positions: int, context: int, batch_size: int, seed: int, sample: int = 0) -> None:
        self.positions, self.batch_size, self.seed, self.sample = positions, batch_size, seed, sample
        self.length = min(context, positions)
        # As many windows as fit after the largest phase, so that all epochs have as many.
        self.windows = max(1, (positions - self.length + 1) // self.length)
        self.batches_per_epoch = max(1, self.windows // batch_size)
        self.tokens_per_batch = batch_size * self.length

    def epoch(self, epoch: int) -> Ints:
        """The windows of an epoch: side by side from a random phase on, shuffled.
        Shape: (batches_per_epoch, batch_size)."""
        draw = generator(self.seed, ORDER, epoch)
        phases = min(self.length, self.positions - self.windows * self.length + 1)
        starts = draw.integers(phases) + self.length * draw.permutation(self.windows)
        return np.resize(starts, (self.batches_per_epoch, self.batch_size))

    def whole(self) -> Iterator[Ints]:
        """Every position once, in order. A rest that is shorter than a window comes last, alone; a sample lacks it."""
        full, rest = divmod(self.positions, self.length)
        share = self.sample / self.positions
        starts = self.length * evenly(full, share)
        for first in range(0, len(starts), self.batch_size):
            yield starts[first : first + self.batch_size]
        if rest and not 0 < share < 1:
            yield np.array([full * self.length])


def document_windows(documents: Ints, label_offset: int, context: int) -> tuple[Ints, Ints]:
    """Start and length of every window, where one of more than `context` positions is cut into windows side by side; a
    document of no positions has none.

    >>> document_windows(np.array([[0, 4], [4, 9]]), 1, 3)
    (array([0, 4, 7]), array([3, 3, 1]))

    Shape: documents (2, documents), where each begins in the stream and where it ends"""
    starts, ends = documents
    positions = ends - starts - label_offset
    pieces = -(-positions // context)
    document = np.repeat(np.arange(len(positions)), pieces)
    piece = np.arange(len(document)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return starts[document] + piece * context, np.minimum(context, positions[document] - piece * context)


class WindowBatches(PlannedBatches):
    """Batches of windows, side by side in the stream, so that no token is read twice in an epoch. `batch_tokens`, at
    least `context`, are the places of a batch, padding included, instead of `batch_size` windows. With `documents`,
    windows begin where documents begin, and share batches by length; a UsageError where none has enough tokens. With
    `document_masking`, batches tell where documents begin, so that none sees another. `sample` as in `WindowPlan`."""

    label_offset = 0  # 1 where the token after a window's last is needed as well, for its label

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
        document_masking: bool = False,
        sample: int = 0,
    ) -> None:
        self._view, self._roles, self._seed, self._context = view, roles, seed, context
        self.longest = int(self._places(np.array([context])).sum())
        self._masks_documents = document_masking and not documents
        self._windows = document_windows(view.documents, self.label_offset, context) if documents else None
        if self._windows is None:
            rows = batch_size if batch_tokens is None else batch_tokens // self.longest
            plan: Plan = WindowPlan(len(view) - self.label_offset, context, rows, seed, sample)
        else:
            lengths = self._windows[1]
            if not len(lengths):
                remedy = "give longer texts, or set train.windows = 'stream' without train.document_masking"
                raise UsageError("No document has a token behind its first one", remedy)
            numbers = evenly(len(lengths), sample / int(lengths.sum()))
            sizes = self._places(lengths[numbers])
            plan = plan_by_length(numbers, sizes, batch_size=batch_size, batch_tokens=batch_tokens, seed=seed)
        super().__init__(plan)

    def _places(self, lengths: Ints) -> Ints:
        """The places of each side of rows, by the lengths of windows. Shape: lengths (N,); result (sides, N)."""
        return lengths[None]

    def spans(self) -> Iterator[Spans]:
        """The windows of each batch of `whole`, in its order."""
        return map(self._spans, self._plan.whole())

    def _spans(self, rows: Ints) -> Spans:
        if self._windows is not None:
            return Spans(*(array[rows] for array in self._windows))
        return Spans(rows, np.minimum(self._context, len(self._view) - self.label_offset - rows))

    def _document_starts(self, spans: Spans) -> Ints | None:
        """Of each token and each label behind it the column where its document begins, where documents are told apart.
        Shape: (B, `label_offset` + longest)."""
        if not self._masks_documents:
            return None
        return self._view.document_starts(spans.starts, int(spans.lengths.max()) + self.label_offset)


EVALUATION_SEED = 20181011  # seed of what is drawn for `whole`, the same for every run, so that results can be compared


class DrawnBatches(WindowBatches):
    """Windows of which chance decides what is hidden, anew in every epoch: a function of seed and batch number."""

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Batches without end, from number `start` on."""
        for number, rows in self._training_rows(start):
            yield self._drawn(rows, generator(self._seed, MASKS, number))

    def whole(self) -> Iterator[Batch]:
        """Every token in exactly one window, always in one order; the same is hidden for every run and batch size."""
        draw = generator(EVALUATION_SEED, MASKS)
        yield from (self._drawn(rows, draw) for rows in self._plan.whole())

    def _drawn(self, rows: Ints, draw: np.random.Generator) -> Batch:
        raise NotImplementedError
