"""The data loader: batches for a causal language model, a masked one (MLM), and seq2seq with teacher forcing.

Windows and pairs collate their own rows. Masked tokens have the shares of Devlin et al. 2019 (BERT), section 3.1. A
batch follows from the seed and its number, and is made when it is asked for; training on a GPU has some prefetched."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import Part
from tfcli.data.batch import IGNORED, Batch, Ints, PlannedBatches, evenly, plan_by_length
from tfcli.data.dataset import PairsView, PreparedDataset, TokenStreamView
from tfcli.data.denoising import DenoisingBatches, find_sentinels
from tfcli.data.labelled import BOTH, FIRST, LAST, numbers_of
from tfcli.data.windows import DrawnBatches, WindowBatches, filled, present
from tfcli.errors import UsageError
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles


def are_news(tokens: NDArray[np.integer], roles: TokenRoles) -> NDArray[np.bool_]:
    """Which tokens but the first of each row are predicted: not those that every text begins with, which would only
    flatter the loss, and no end right behind another one. Shape: tokens (…, 1 + T); result (…, T)."""
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

    def _batch(self, rows: Ints) -> Batch:
        spans, pad = self._spans(rows), self._roles.pad
        tokens = self._view.padded(spans.starts, spans.lengths + 1, pad)
        read = present(spans.lengths)
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(read, tokens[:, :-1], pad)
        scored = read & are_news(tokens, self._roles)
        if (documents := self._document_starts(spans)) is not None:
            if not self._roles.is_shared:  # else a document ends with the token that the next one begins with
                scored &= documents[:, 1:] == documents[:, :-1]
            documents = documents[:, :-1]
        labels = np.where(scored, tokens[:, 1:], IGNORED)
        return Batch(inputs, labels, row_tokens=spans.lengths, document_starts=documents)


MASKED = 0.8  # share of the chosen tokens that become the mask token
REPLACED = 0.1  # share of the chosen tokens that become a random token; the rest stay as they are
WordStarts = Callable[[Ints], NDArray[np.bool_]] | None  # where words begin, as `Tokenizer.word_starts` says


class Masker:
    """Chooses tokens, or words, and hides them. Special tokens (unknown ones too) are never chosen and never put in.

    A word is chosen by the number of its first token, with the same probability as a token otherwise; what becomes of
    each of its tokens is decided for each, as in BERT's own code for whole words (Devlin et al., May 2019). A
    UsageError where the tokenizer has no mask token."""

    def __init__(self, roles: TokenRoles, vocab_size: int, probability: float, word_starts: WordStarts = None) -> None:
        if roles.mask is None:
            raise UsageError("This tokenizer has no mask token", "train a tokenizer that has one, for an encoder")
        self._mask = roles.mask
        self._probability, self._word_starts = probability, word_starts
        self._is_ordinary = np.ones(vocab_size, dtype=bool)
        self._is_ordinary[roles.ids()] = False
        self._ordinary = np.flatnonzero(self._is_ordinary)

    def hide(self, tokens: Ints, present: NDArray[np.bool_], draw: np.random.Generator) -> tuple[Ints, Ints]:
        """Inputs and labels for windows of tokens, each (B, S); a window with any ordinary token gets at least one
        label. Three numbers are drawn for each position with a token, however windows are batched and padded."""
        drawn = np.zeros((*tokens.shape, 3))
        drawn[present] = draw.random((int(present.sum()), 3))
        choice, forced, substitute = np.moveaxis(drawn, -1, 0)
        ordinary = self._is_ordinary[tokens] & present
        own, choice = choice, np.where(ordinary, choice, 1.0)
        starts = None
        if self._word_starts is not None:
            starts = self._word_starts(tokens) | ~ordinary
            starts[:, 1:] |= ~ordinary[:, :-1]
            choice = np.where(starts, choice, 1.0)
        # Where no number of a window is below the probability, its smallest is brought below it. 1.0 marks special
        # tokens: drawn numbers are below it.
        rows, places = np.arange(len(choice)), choice.argmin(axis=1)
        needed = (choice[rows, places] >= self._probability) & (choice[rows, places] < 1.0)
        rows, places = rows[needed], places[needed]
        choice[rows, places] = self._probability * forced[rows, places]
        if starts is not None:  # a token within a word is chosen with the word's first one, and has a fate of its own
            first = np.maximum.accumulate(np.where(starts, np.arange(tokens.shape[1]), 0), axis=1)
            is_chosen = np.take_along_axis(choice, first, axis=1) < self._probability
            choice = np.where(starts, choice, np.where(is_chosen, own * self._probability, 1.0))
        # One number decides both whether a token is chosen and what becomes of it.
        chosen = choice < self._probability
        masked = choice < self._probability * MASKED
        replaced = ~masked & (choice < self._probability * (MASKED + REPLACED))
        inputs = np.where(masked, self._mask, tokens)
        inputs[replaced] = self._ordinary[(substitute[replaced] * len(self._ordinary)).astype(np.int64)]
        return inputs, np.where(chosen, tokens, IGNORED)


class MaskedBatches(DrawnBatches):
    """Batches for `mlm`: windows of `context` tokens, masked anew in every epoch.

    Labels are the original tokens at the chosen places, not shifted. A window of special tokens has none. Words are
    masked as wholes where `word_starts` finds them, else tokens are."""

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        mask_probability: float,
        vocab_size: int,
        word_starts: WordStarts = None,
        **windows: Any,
    ) -> None:
        super().__init__(view, roles, **windows)
        self._masker = Masker(roles, vocab_size, mask_probability, word_starts)

    def _drawn(self, rows: Ints, draw: np.random.Generator) -> Batch:
        spans = self._spans(rows)
        read = present(spans.lengths)
        inputs, labels = self._masker.hide(self._view.padded(spans.starts, spans.lengths, self._roles.pad), read, draw)
        padding_mask, documents = None if read.all() else read, self._document_starts(spans)
        return Batch(inputs, labels, padding_mask, row_tokens=spans.lengths, document_starts=documents)


class FittingPairs(PlannedBatches):
    """Batches of the pairs that fit into the context, of about the same length each. Others, `left_out` in number, take
    no part, in training and in `whole`, which yields the pairs that have the numbers `order` in their part. One has
    `longest` tokens on both sides. A UsageError where every pair is too long by its size, or one is larger than
    `batch_tokens`: places of a batch, of both sides and padding included, instead of `batch_size` pairs. `sample`:
    tokens of the evenly spread pairs that alone take part; 0: all. Shape: lengths (sides, pairs); sizes (pairs,)."""

    def __init__(
        self, view: PairsView, lengths: Ints, sizes: Ints, every: str, *, context: int, sample: int = 0, **plan: Any
    ) -> None:
        self._view = view
        fitting = np.flatnonzero(sizes <= context)
        if not len(fitting):
            problem = f"{every} longer than the context of {context} tokens (the shortest has {int(sizes.min())})"
            raise UsageError(problem, "raise train.context and model.max_seq_len")
        self.left_out = len(view) - len(fitting)
        fitting = fitting[evenly(len(fitting), sample / int(lengths[:, fitting].sum()))]
        lengths = lengths[:, fitting]
        self.longest = int(lengths.sum(axis=0).max())
        super().__init__(plan_by_length(fitting, lengths, **plan))
        self.order = np.concatenate([*self._plan.whole()])


class PairBatches(FittingPairs):
    """Batches for `seq2seq`: pairs of about the same length, padded on the right.

    ``decoder_input_ids`` are ``<s> ids``, ``labels`` are ``ids </s>``. Where two tokens begin a target, the second is
    predicted as well, as in BART's own training: ``</s> <s> ids`` and ``<s> ids </s>``. Pairs whose source
    (``ids </s>``) or decoder input has more than `context` tokens do not fit."""

    def __init__(self, view: PairsView, roles: TokenRoles, **plan: Any) -> None:
        self._pad = roles.pad
        sources, targets = view.source.lengths, view.target.lengths - 1
        super().__init__(view, np.stack([targets, sources]), np.maximum(sources, targets), "Every pair is", **plan)

    def _batch(self, numbers: Ints) -> Batch:
        sources = self._view.source.padded(numbers, self._pad)
        targets = self._view.target.padded(numbers, self._pad)
        source_lengths, target_lengths = self._view.source.lengths[numbers], self._view.target.lengths[numbers] - 1
        scored = present(target_lengths)
        return Batch(
            input_ids=sources,
            labels=np.where(scored, targets[:, 1:], IGNORED),
            padding_mask=present(source_lengths),
            decoder_input_ids=np.where(scored, targets[:, :-1], self._pad),
            row_tokens=source_lengths + target_lengths,
        )


class CompletionBatches(FittingPairs):
    """Batches for a completion-only loss: prompts with their answers behind them, ``<s> prompt answer </s>``, for a
    decoder, of which only the answer and its end are scored. Both together fit into `context` tokens."""

    def __init__(self, view: PairsView, roles: TokenRoles, *, context: int, **plan: Any) -> None:
        self._roles = roles
        # What is stored around the sides of a pair is not what a decoder reads around a text.
        self._prompts = view.source.lengths - len(roles.source(())) + len(roles.text_prefix)
        lengths = self._prompts + view.target.lengths - len(roles.target_prefix) - 1
        sizes = np.where(lengths > 0, lengths, context + 1)  # what has no token does not fit either
        super().__init__(view, lengths[None], sizes, "Every prompt is, with its answer,", context=context, **plan)

    def _batch(self, numbers: Ints) -> Batch:
        view, roles, prompts = self._view, self._roles, self._prompts[numbers]
        before, behind, skipped = len(roles.source_start), len(roles.end), len(roles.target_prefix)
        rows = []
        for number in numbers.tolist():
            source = view.source.sequence(number)
            text = source[before : len(source) - behind]
            rows.append(np.concatenate([roles.text_prefix, text, view.target.sequence(number)[skipped:]]))
        tokens, there = filled(rows, roles.pad)
        read = there[:, 1:]
        scored = read & (np.arange(read.shape[1]) >= prompts[:, None] - 1)
        inputs = np.where(read, tokens[:, :-1], roles.pad)
        return Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=read.sum(axis=1))


class LabelBatches(FittingPairs):
    """Batches of labelled texts of about the same length, padded on the right.

    classify: the label of a text stands at the token whose vector the head reads: an encoder's first one, a decoder's
    last. A text that is longer than the context is cut, and keeps its last token (``</s>``). tag and span: longer ones
    take no part. span: the labels are the places of the first and the last token, among those of the context.
    `numbers` are the labels by what is stored, (C + 1,), `IGNORED` for 0."""

    def __init__(
        self, view: PairsView, roles: TokenRoles, *, task: str, architecture: str, numbers: Ints, **plan: Any
    ) -> None:
        self._roles, self._context, self._task, self._numbers = roles, plan["context"], task, numbers
        self._reads_first = architecture == "encoder"
        lengths = np.minimum(view.source.lengths, self._context) if task == "classify" else view.source.lengths
        super().__init__(view, lengths[None], lengths, "Every text is", **plan)

    def _batch(self, numbers: Ints) -> Batch:
        view, context = self._view, self._context
        inputs, beside = view.source.padded(numbers, self._roles.pad), view.target.padded(numbers, 0)
        lengths = view.source.lengths[numbers]
        if inputs.shape[1] > context:
            longer = np.flatnonzero(lengths > context)
            inputs[longer, context - 1] = inputs[longer, lengths[longer] - 1]
            inputs, beside, lengths = inputs[:, :context], beside[:, :context], np.minimum(lengths, context)
        read = present(lengths)
        mask = None if read.all() or (not self._reads_first and self._task != "span") else read
        if self._task == "span":
            labels = np.stack([np.isin(beside, (end, BOTH)).argmax(1) for end in (FIRST, LAST)], axis=1)
            return Batch(inputs, labels, mask, row_tokens=lengths, answerable=beside > 0)
        labels = self._numbers[beside]
        if self._task == "classify":
            at = np.zeros_like(lengths) if self._reads_first else lengths - 1
            labels = np.where(np.arange(labels.shape[1]) == at[:, None], labels[:, :1], IGNORED)
        return Batch(inputs, labels, mask, row_tokens=lengths)


class PrefixBatches(DrawnBatches):
    """Batches for a prefix language model (Raffel et al. 2020, section 3.2.1): the first part of a window is read both
    ways and not scored. Its length is drawn for each window, 1 to all of its tokens, each as likely, as in T5's own
    code; its last token predicts the first one behind it."""

    label_offset = 1

    def _drawn(self, rows: Ints, draw: np.random.Generator) -> Batch:
        spans, pad = self._spans(rows), self._roles.pad
        tokens = self._view.padded(spans.starts, spans.lengths + 1, pad)
        prefix = draw.integers(1, spans.lengths, endpoint=True)
        read = present(spans.lengths)
        scored = read & are_news(tokens, self._roles) & (np.arange(read.shape[1]) >= prefix[:, None] - 1)
        inputs = np.where(read, tokens[:, :-1], pad)
        return Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=spans.lengths, prefix=prefix)


Batches = CausalBatches | MaskedBatches | FittingPairs | DenoisingBatches | PrefixBatches


def build_batches(recipe: Recipe, data: PreparedDataset, part: Part, roles: TokenRoles, sample: int = 0) -> Batches:
    """Batches of one part of a prepared dataset, as the recipe's objective wants them; of an evenly spread `sample` of
    so many tokens, 0: of all. A UsageError where the dataset holds something else than is needed, or a training pair
    alone is larger than `train.batch_tokens`."""
    objective, context, tokens = recipe.objective, recipe.context, recipe.train.batch_tokens
    if tokens is not None and part == "validation":
        # What was trained on may all be shorter than what is scored: nothing is refused here.
        tokens = max(tokens, context * (2 if recipe.model.architecture == "encoder-decoder" else 1))
    common: dict[str, Any] = {"batch_size": recipe.train.rows, "batch_tokens": tokens, "context": context}
    common |= {"seed": recipe.train.seed, "sample": sample}
    if recipe.train.task is not None:
        data.require_kind(recipe.train.task)
        numbers = numbers_of(data.manifest, recipe.model.labels or data.manifest.labels)
        common |= {"task": objective, "architecture": recipe.model.architecture, "numbers": numbers}
        return LabelBatches(data.pairs(part), roles, **common)
    if objective in ("seq2seq", "completion"):
        return (PairBatches if objective == "seq2seq" else CompletionBatches)(data.pairs(part), roles, **common)
    masking = recipe.train.document_masking
    # What is scored is read a document at a time where documents are told apart: the same, without a mask.
    documents = recipe.train.windows == "documents" or (masking and part == "validation")
    common |= {"documents": documents, "document_masking": masking}
    if objective == "mlm":
        common |= {"vocab_size": data.manifest.vocab_size, "mask_probability": recipe.train.mask_probability}
        common["word_starts"] = data.tokenizer().word_starts if recipe.train.whole_words else None
        return MaskedBatches(data.text(part), roles, **common)
    if objective in ("infilling", "span-corruption"):
        sentinels = find_sentinels(data.tokenizer().token_id) if objective == "span-corruption" else ()
        common |= {"kind": objective, "sentinels": sentinels}
        return DenoisingBatches(data.text(part), roles, **common)
    return (PrefixBatches if objective == "prefix" else CausalBatches)(data.text(part), roles, **common)
