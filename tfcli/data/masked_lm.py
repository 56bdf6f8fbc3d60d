"""Masked language model batches: some tokens are hidden, and the model has to say what they were.

The shares are those of Devlin et al. 2019 (BERT), section 3.1.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, MASKS, Batch, generator
from tfcli.data.dataset import TokenStreamView
from tfcli.data.windows import WindowBatches, present
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles

MASKED = 0.8
"""Share of the chosen tokens that become the mask token."""

REPLACED = 0.1
"""Share of the chosen tokens that become a random token; the rest stay as they are."""

EVALUATION_SEED = 20181011
"""Seed of the masks of `whole`, the same for every run, so that results can be compared."""


class Masker:
    """Chooses tokens and hides them. Special tokens (unknown ones too) are never chosen and never put in.

    Raises:
        UsageError: the tokenizer has no mask token.
    """

    def __init__(self, roles: TokenRoles, vocab_size: int, probability: float) -> None:
        if roles.mask is None:
            raise UsageError("This tokenizer has no mask token", "train a tokenizer that has one, for an encoder")
        self._mask = roles.mask
        self._probability = probability
        self._is_ordinary = np.ones(vocab_size, dtype=bool)
        self._is_ordinary[roles.ids()] = False
        self._ordinary = np.flatnonzero(self._is_ordinary)

    def hide(
        self, tokens: NDArray[np.int64], present: NDArray[np.bool_], draw: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and labels for windows of tokens; a window with any ordinary token gets at least one label.

        Three numbers are drawn for each position that holds a token, so that it does not matter how windows are
        batched and padded.

        Shape: tokens, present, inputs, labels (B, S)
        """
        drawn = np.zeros((*tokens.shape, 3))
        drawn[present] = draw.random((int(present.sum()), 3))
        choice, forced, substitute = np.moveaxis(drawn, -1, 0)
        ordinary = self._is_ordinary[tokens] & present
        choice = np.where(ordinary, choice, 1.0)
        self._choose_one_at_least(choice, forced)
        # One number decides both whether a token is chosen and what becomes of it.
        chosen = choice < self._probability
        masked = choice < self._probability * MASKED
        replaced = ~masked & (choice < self._probability * (MASKED + REPLACED))
        inputs = np.where(masked, self._mask, tokens)
        inputs[replaced] = self._ordinary[(substitute[replaced] * len(self._ordinary)).astype(np.int64)]
        return inputs, np.where(chosen, tokens, IGNORED)

    def _choose_one_at_least(self, choice: NDArray[np.float64], forced: NDArray[np.float64]) -> None:
        """Where no number of a window is below the probability, bring its smallest below it."""
        places = choice.argmin(axis=1)
        rows = np.arange(len(choice))
        smallest = choice[rows, places]
        # 1.0 marks special tokens: drawn numbers are below it.
        needed = (smallest >= self._probability) & (smallest < 1.0)
        rows, places = rows[needed], places[needed]
        choice[rows, places] = self._probability * forced[rows, places]


class MaskedBatches(WindowBatches):
    """Batches for `mlm`: windows of `context` tokens, masked anew in every epoch.

    Labels are the original tokens at the chosen places, not shifted. A window of special tokens has none.
    """

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        mask_probability: float,
        vocab_size: int,
        **windows: Any,
    ) -> None:
        super().__init__(view, roles, **windows)
        self._masker = Masker(roles, vocab_size, mask_probability)

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Batches without end, from number `start` on."""
        for number, rows in self._training_rows(start):
            yield self._masked(rows, generator(self._seed, MASKS, number))

    def whole(self) -> Iterator[Batch]:
        """Every token in exactly one window, always in the same order; the same masks for every run and batch size."""
        draw = generator(EVALUATION_SEED, MASKS)
        for rows in self._plan.whole():
            yield self._masked(rows, draw)

    def _masked(self, rows: NDArray[np.int64], draw: np.random.Generator) -> Batch:
        spans = self._spans(rows)
        read = present(spans.lengths)
        tokens = self._view.padded(spans.starts, spans.lengths, self._roles.pad)
        inputs, labels = self._masker.hide(tokens, read, draw)
        return Batch(inputs, labels, padding_mask=None if read.all() else read, row_tokens=spans.lengths)
