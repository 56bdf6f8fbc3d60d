"""Batches: what one forward pass sees, and the keyed random numbers that order them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IGNORED = -100
"""The label of a position that is not scored, as in PyTorch's cross-entropy."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch of token ids.

    Labels are shifted already: ``labels[:, t]`` is what position t has to predict, `IGNORED` where nothing is
    scored. `padding_mask` is True where there is a token; None: there is no padding that a token could see.
    `row_tokens` are the tokens that each row reads, of both sides; None: every place has one.

    Shape: input_ids, padding_mask (B, S); labels, decoder_input_ids (B, T), without decoder input T = S;
        row_tokens (B,)
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: NDArray[np.int64] | None = None
    row_tokens: NDArray[np.int64] | None = None

    @property
    def places(self) -> int:
        """The places that a token may stand at, of both sides: what a forward pass computes, padding or not."""
        return self.input_ids.size + (0 if self.decoder_input_ids is None else self.decoder_input_ids.size)

    @property
    def tokens(self) -> int:
        """The number of tokens read, of both sides, without padding: what progress and speed are counted in."""
        return self.places if self.row_tokens is None else int(self.row_tokens.sum())

    @property
    def padding(self) -> int:
        """Places without a token, of both sides."""
        return self.places - self.tokens

    @property
    def target_tokens(self) -> int:
        """The number of positions that are scored."""
        return int(np.count_nonzero(self.labels != IGNORED))

    def rows(self, share: slice) -> "Batch":
        """Some of the rows, as wide as all of them: what one process of several computes."""
        return Batch(
            self.input_ids[share],
            self.labels[share],
            None if self.padding_mask is None else self.padding_mask[share],
            None if self.decoder_input_ids is None else self.decoder_input_ids[share],
            None if self.row_tokens is None else self.row_tokens[share],
        )


ORDER = 0
"""Stream of the order of an epoch: key (seed, ORDER, epoch)."""

MASKS = 1
"""Stream of the masks of a batch: key (seed, MASKS, batch number)."""

SAMPLES = 2
"""Stream of a generated text: key (seed, SAMPLES, checksum of its prompt, number of the sample)."""


def generator(*key: int) -> np.random.Generator:
    """A counter-based generator (Philox; Salmon et al. 2011) for this key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


def endless(
    epoch: Callable[[int], Sequence[NDArray[Any]] | NDArray[Any]], batches_per_epoch: int, start: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Epoch after epoch, from batch number `start` on: the number of each batch, and its row of the epoch's plan."""
    number, first = divmod(start, batches_per_epoch)
    while True:
        for index, row in enumerate(epoch(number)[first:], start=first):
            yield number * batches_per_epoch + index, row
        number, first = number + 1, 0
