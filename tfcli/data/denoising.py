"""Denoising objectives: span corruption (T5) and text infilling (BART), for an encoder-decoder that learns from text.

Span corruption (Raffel et al. 2020, section 3.1.4 and figure 2). The source has a sentinel in the place of every span,
the target each sentinel with its span, and a last sentinel.

    text      Thank you for inviting me to your party last week
    source    Thank you <X> me to your party <Y> week
    target    <X> for inviting <Y> last <Z>

Text infilling (Lewis et al. 2019, section 2.2). The source has one mask in the place of every span, some of which are
empty, and the target is the text.

Both take windows of text without the tokens that frame documents, put an encoder-decoder's own around each side, and
cut windows as long as the context then holds: 568 tokens for sources of 512, as in T5.

Shape legend: n tokens of a window, k spans, N windows, B rows of a batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch, Ints
from tfcli.data.dataset import TokenStreamView
from tfcli.data.windows import DrawnBatches, filled, present
from tfcli.errors import UsageError
from tfcli.recipe.train import Denoising
from tfcli.records.roles import TokenRoles

CORRUPTED, SPAN = 0.15, 3  # share of the tokens that stand in T5's spans, and the tokens of a span on average
INFILLED, POISSON = 0.3, 3.0  # share of those in BART's spans, and the λ of their lengths, before the last one is cut


def span_counts(tokens: Ints) -> tuple[Ints, Ints]:
    """How many of so many tokens are corrupted, and in how many spans; one at least of each.

    >>> span_counts(np.array([1, 20, 512, 568]))
    (array([ 1,  3, 77, 85]), array([ 1,  1, 26, 28]))
    """
    corrupted = np.maximum(np.rint(CORRUPTED * tokens), 1).astype(np.int64)
    return corrupted, np.maximum(np.rint(corrupted / SPAN), 1).astype(np.int64)


def sentinel_names(context: int | None = None) -> list[str]:
    """T5's names of sentinels: as many as a source of `context` tokens can need, one behind the last span among them;
    None: as many as any tokenizer has."""
    number = 4096 if context is None else int(span_counts(np.array(context * 10 // 9 + 4))[1]) + 1
    return [f"<extra_id_{one}>" for one in range(number)]


def find_sentinels(token_id: Callable[[str], int | None]) -> tuple[int, ...]:
    """The ids of a tokenizer's sentinels, the first one first."""
    names = iter(sentinel_names())
    return tuple(iter(lambda: token_id(next(names)), None))  # up to the first one that it lacks


class Sides(NamedTuple):
    """What the encoder reads of a window and what the decoder writes, unframed."""

    source: Ints
    target: Ints


def corrupt_spans(tokens: Ints, sentinels: Ints, draw: np.random.Generator) -> Sides:
    """Span corruption of a window. Any division of the corrupted tokens into spans is equally likely, and so is any
    choice of the gaps between the tokens that are left, where spans stand apart from each other. Shape: tokens (n,);
    sentinels (k + 1 or more,)."""
    corrupted, spans = (int(count) for count in span_counts(np.array(len(tokens))))
    cuts = np.sort(draw.choice(corrupted - 1, spans - 1, replace=False)) + 1
    lengths = np.diff(np.concatenate([[0], cuts, [corrupted]]))
    gaps = np.sort(draw.choice(len(tokens) - corrupted + 1, spans, replace=False))
    hidden, before = _hidden(len(tokens), gaps, lengths)
    target = np.insert(tokens[hidden], before, sentinels[:spans])
    return Sides(np.insert(tokens[~hidden], gaps, sentinels[:spans]), np.append(target, sentinels[spans]))


def infill(tokens: Ints, mask: int, draw: np.random.Generator) -> Sides:
    """Text infilling of a window: lengths are drawn until their sum is reached, and the last is cut to it. Any order of
    the spans and of the tokens that are left is equally likely. No source is longer than its text: of a few tokens,
    empty spans are left out. Shape: tokens (n,)."""
    wanted = max(1, round(INFILLED * len(tokens)))
    drawn: list[int] = []
    while (rest := wanted - sum(drawn)) > 0:
        drawn.append(min(int(draw.poisson(POISSON)), rest))
    lengths = draw.permutation(np.array(sorted(drawn, key=lambda length: length == 0)[:wanted]))
    places = np.sort(draw.choice(len(tokens) - wanted + len(lengths), len(lengths), replace=False))
    gaps = places - np.arange(len(lengths))
    hidden, _ = _hidden(len(tokens), gaps, lengths)
    return Sides(np.insert(tokens[~hidden], gaps, mask), tokens)


def _hidden(count: int, gaps: Ints, lengths: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Which of so many tokens stand in spans of these lengths, each behind so many tokens outside of spans; and how
    many tokens inside of spans stand before each span. Shape: gaps, lengths (k,); result (n,), (k,)."""
    before = np.cumsum(lengths) - lengths
    hidden = np.zeros(count, dtype=bool)
    hidden[np.repeat(gaps, lengths) + np.arange(int(lengths.sum()))] = True
    return hidden, before


class DenoisingBatches(DrawnBatches):
    """Batches of corrupted windows: sources ``ids </s>``, and targets as those of pairs. A window of framing tokens
    alone asks for nothing. A UsageError where the tokenizer has no mask, or too few `sentinels`; or the context or
    `batch_tokens` are too small."""

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        kind: Denoising,
        sentinels: Sequence[int] = (),
        context: int,
        batch_tokens: int | None = None,
        **windows: Any,
    ) -> None:
        self._kind, self._roles = kind, roles
        lengths = np.arange(1, 2 * context)
        room = self._places(lengths).max(axis=0) <= context
        if not room[0]:
            problem = f"train.context = {context} has no room for a text and the tokens around it"
            raise UsageError(problem, "raise train.context")
        longest = int(lengths[room][-1])
        if kind == "span-corruption":
            needed = int(span_counts(np.array(longest))[1]) + 1
            if len(sentinels) < needed:
                has = f"{len(sentinels)} sentinels" if sentinels else "no sentinels"
                problem = f"Span corruption of {longest} tokens needs {needed} sentinels, <extra_id_0> and following"
                remedy = "lower train.context" if sentinels else "let tfcli train a tokenizer: leave tokenizer.path out"
                raise UsageError(f"{problem}, and this tokenizer has {has}", f"{remedy}, or take a tokenizer of T5's")
        elif roles.mask is None:
            problem = "This tokenizer has no mask token, and infilling puts one in the place of a span"
            raise UsageError(problem, "take a tokenizer that has one")
        places = int(self._places(np.array([longest])).sum())
        if batch_tokens is not None and batch_tokens < places:
            problem = f"train.batch_tokens = {batch_tokens} cannot hold one window of {longest} tokens, {places} places"
            raise UsageError(problem, f"raise train.batch_tokens to {places} or more, or lower train.context")
        self._sentinels = np.array(sentinels, dtype=np.int64)
        self._frame = np.array([*roles.text_prefix, *roles.end], dtype=np.int64)
        super().__init__(view, roles, context=longest, batch_tokens=batch_tokens, **windows)

    def _places(self, lengths: Ints) -> Ints:
        roles = self._roles
        source, target = len(roles.source(())), len(roles.target_prefix) + len(roles.end) - 1
        if self._kind == "infilling":
            return np.stack([source + lengths, target + lengths])
        corrupted, spans = span_counts(lengths)
        return np.stack([source + lengths - corrupted + spans, target + corrupted + spans + 1])

    def _drawn(self, rows: Ints, draw: np.random.Generator) -> Batch:
        spans, roles = self._spans(rows), self._roles
        windows = self._view.padded(spans.starts, spans.lengths, roles.pad)
        is_text = present(spans.lengths) & ~np.isin(windows, self._frame)
        texts = [window[of_text] for window, of_text in zip(windows, is_text, strict=True)]
        sides = [self._corrupted(text, draw) if len(text) else Sides(text, text) for text in texts]
        source, read = filled([roles.source(one.source.tolist()) for one in sides], roles.pad)
        target, written = filled([[*roles.target_prefix, *one.target.tolist(), *roles.end] for one in sides], roles.pad)
        return Batch(
            input_ids=source,
            labels=np.where(written[:, 1:] & is_text.any(axis=1, keepdims=True), target[:, 1:], IGNORED),
            padding_mask=read,
            decoder_input_ids=np.where(written[:, 1:], target[:, :-1], roles.pad),
            row_tokens=read.sum(axis=1) + written[:, 1:].sum(axis=1),
        )

    def _corrupted(self, text: Ints, draw: np.random.Generator) -> Sides:
        if self._kind == "infilling":
            assert self._roles.mask is not None
            return infill(text, self._roles.mask, draw)
        return corrupt_spans(text, self._sentinels, draw)
