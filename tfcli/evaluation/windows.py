"""Sliding windows of an evaluation, what a user may choose about them, and the text that their tokens stand for.
Shape legend: C cells, in the order of the text.

With a context of 4 and a stride of 2 the tokens `a b c d e f g h` are scored as

    window 1   <s> a b c      scores a b c d
    window 2       b c d e    scores       e f
    window 3           d e f g    scores       g h

so that every token but the first ones has at least context − stride tokens before it. A stride as long as the context
makes windows side by side."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tfcli.data.batch import IGNORED, Batch, BudgetPlan, Ints
from tfcli.data.dataset import SequencesView, TokenStreamView
from tfcli.data.loader import are_news
from tfcli.data.windows import present
from tfcli.errors import UsageError
from tfcli.recipe.evaluate import BleuTokenize
from tfcli.recipe.train import Windows
from tfcli.records.dataset import PartCounts
from tfcli.records.evaluation import Unit
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.labels import INCOMPLETE
from tfcli.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class EvaluationSettings:
    """The defaults score every token once and translate as the run's recipe says."""

    stride: int | None = None  # tokens from one decoder's window to the next; None: the context
    windows: Windows | None = None  # what is read at a time; None: as in training, and of an imported run a document
    context: int | None = None  # tokens of a window; None: as in training
    pseudo: bool = False  # score an encoder's tokens masked one by one as well
    beam: int | None = None  # hypotheses kept while translating; None: the recipe's
    bleu_tokenize: BleuTokenize | None = None  # how BLEU cuts texts into words; None: as the recipe says


AS_IT_IS = EvaluationSettings()


@contextmanager
def scoring(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards, however it ends, the model is in the mode that it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def require_tokens(tokens: int) -> None:
    """Refuse a text of which nothing can be scored."""
    if tokens == 0:
        problem = "The validation part has no token to score: all are special or unknown to the tokenizer"
        raise UsageError(problem, "score text in the alphabet that the tokenizer was trained on")


def perplexity(loss: float) -> float:
    """exp(loss); infinite where that is beyond all numbers."""
    return math.exp(loss) if loss < 700 else math.inf


@dataclass(frozen=True, eq=False)
class Placed:
    """A batch, and each label's place in the stream, (B, T), or, of pairs, the number of its pair, (B, 1)."""

    batch: Batch
    places: NDArray[np.int64]


FEWEST_DOCUMENTS = 30  # with fewer, resamples are made of stretches of text (a block bootstrap; Carlstein 1986)

_SHORTEST, _LONGEST = 16, 1024
_STRETCHES = 100  # wanted; each of 16 to 1,024 tokens


@dataclass(frozen=True, eq=False)
class Cells:
    """`firsts` are the places in the stream where cells begin (of pairs: none, a cell is a pair); `document` and
    `unit` are the numbers of what each belongs to. Shape: each (C,)."""

    firsts: NDArray[np.int64] | None
    document: NDArray[np.int64]
    unit: NDArray[np.int64]
    kind: Unit

    def __len__(self) -> int:
        return len(self.document)

    @property
    def units(self) -> int:
        """What there is to draw from."""
        return int(self.unit[-1]) + 1


@dataclass(frozen=True, eq=False)
class Extent:
    """The text of each cell, in UTF-8 bytes and in characters, each (C,). `exact`: the tokenizer gives all of it back;
    else the whole is known from when it was read, and how it is spread over cells by what is given back."""

    bytes: NDArray[np.float64]
    characters: NDArray[np.float64]
    exact: bool


def text_cells(view: TokenStreamView) -> Cells:
    """Documents; cut into stretches of one length as well, where there are few."""
    offsets = view.offsets
    documents = np.arange(len(offsets) - 1)
    if len(documents) >= FEWEST_DOCUMENTS:
        return Cells(offsets[:-1], documents, documents, "documents")
    stretch = min(max(len(view) // _STRETCHES, _SHORTEST), _LONGEST)
    firsts = np.unique(np.concatenate([offsets[:-1], np.arange(offsets[0], len(view), stretch)]))
    units = (firsts - offsets[0]) // stretch
    return Cells(firsts, np.searchsorted(offsets, firsts, side="right") - 1, units, "stretches")


def text_extent(view: TokenStreamView, cells: Cells, tokenizer: Tokenizer, counts: PartCounts, firsts: Ints) -> Extent:
    """The text of each cell of a part whose counts are known, without that of the tokens that nothing predicts, which
    stand at `firsts`, each at the beginning of a cell."""
    assert cells.firsts is not None
    lengths = np.diff(np.append(cells.firsts, len(view)))
    ids = (view.padded(cells.firsts[n : n + 1], lengths[n : n + 1], 0)[0].tolist() for n in range(len(cells)))
    whole = extent([tokenizer.decode(one) for one in ids], counts)
    tokens = view.padded(cells.firsts, np.ones_like(lengths), 0)[:, 0].tolist()
    # A character that a token only begins is that of the tokens that end it.
    out = zip(tokens, np.isin(cells.firsts, firsts), strict=True)
    first = [tokenizer.decode([one]).rstrip(INCOMPLETE) if is_out else "" for one, is_out in out]
    size = whole.bytes - [len(text.encode()) for text in first]
    return replace(whole, bytes=size, characters=whole.characters - [len(text) for text in first])


def extent(texts: list[str], counts: PartCounts) -> Extent:
    """The extent of cells that the tokenizer gives back so."""
    sizes = np.array([(len(text.encode()), len(text)) for text in texts], np.float64)
    totals = np.array([counts.bytes, counts.characters], np.float64)
    given_back = sizes.sum(0)
    sizes *= totals / np.maximum(given_back, 1)
    return Extent(sizes[:, 0], sizes[:, 1], bool((given_back == totals).all()))


def without_frame(view: SequencesView, start: tuple[int, ...]) -> list[list[int]]:
    """Every sequence without the tokens that begin and the one that ends it."""
    return [view.sequence(number)[len(start) : -1].tolist() for number in range(len(view))]


@dataclass(frozen=True)
class SlidingWindows:
    """A text's windows for `clm`, of at most `context` tokens (`documents`: of one), in batches of so many `tokens`."""

    view: TokenStreamView
    roles: TokenRoles
    context: int
    stride: int
    documents: bool
    tokens: int

    def __iter__(self) -> Iterator[Placed]:
        starts, lengths, skipped = self._windows()
        if len(lengths):
            budget = max(self.tokens, self.context)
            for numbers in BudgetPlan(np.arange(len(lengths)), lengths[None], budget=budget, seed=0).whole():
                yield self._batch(starts[numbers], lengths[numbers], skipped[numbers])

    def _batch(self, starts: NDArray[np.int64], lengths: NDArray[np.int64], skipped: NDArray[np.int64]) -> Placed:
        tokens = self.view.padded(starts, lengths + 1, self.roles.pad)
        there = present(lengths)
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(there, tokens[:, :-1], self.roles.pad)
        columns = np.arange(inputs.shape[1])
        scored = there & (columns >= skipped[:, None])
        scored &= are_news(tokens, self.roles)
        batch = Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=lengths)
        return Placed(batch, starts[:, None] + columns + 1)

    def _windows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where each starts, the tokens it reads, and how many have been scored before, three of (windows,)."""
        firsts, ends = self.view.documents if self.documents else np.array([[0], [len(self.view)]])
        readable = ends - firsts - 1  # nothing follows the last token
        counts = (readable > 0) + np.maximum(0, -(-(readable - self.context) // self.stride))
        segment = np.repeat(np.arange(len(firsts)), counts)
        number = np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = number * self.stride
        lengths = np.minimum(self.context, readable[segment] - starts)
        return firsts[segment] + starts, lengths, np.where(number > 0, self.context - self.stride, 0)
