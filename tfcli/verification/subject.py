"""Verified run: a run, its model in the precision of proofs, and something to read.

Shape legend: B rows, T tokens, S source tokens.
"""

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.data.dataset import PreparedDataset, SequencesView
from tfcli.models.transformer import Transformer
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun

ROWS = 3  # texts read side by side
LONGEST = 512  # tokens of a text at most: attention weights of all layers are kept, and grow with the square
_LARGEST_EXACT = 1 << 28  # parameters up to which a copy in float64 is made: two gigabytes
_WORK = 1 << 32  # parameters times tokens of a text: a second or two a pass, of which the checks take about a hundred
_SINGLE_STEPS = 1 << 32  # parameters times texts read token by token: each step reads every weight
_ENOUGH = 1 << 14  # tokens taken from a side of the validation text


@dataclass(frozen=True)
class VerifiedRun:
    """A run to be looked at, with texts of the validation part of its dataset, or `made_up_because` there is none."""

    run: LoadedRun
    data: PreparedDataset | None = None
    made_up_because: str = ""

    @cached_property
    def model(self) -> Transformer:
        """In evaluation mode; a copy in float64 where it fits: no slip can hide in rounding there."""
        if self.precision == self.run.model.dtype:
            return self.run.model
        with torch.inference_mode(False):  # wherever it is asked for first: gradients are taken of it too
            return copy.deepcopy(self.run.model).to(self.precision)

    @property
    def roles(self) -> TokenRoles:
        """The ids of the special tokens."""
        return self.run.config.roles

    @property
    def precision(self) -> torch.dtype:
        """Of `model`. Apple's GPUs have no float64."""
        small = self.run.model.num_parameters() <= _LARGEST_EXACT
        return torch.float64 if small and self.run.device.type != "mps" else torch.float32

    @property
    def limit(self) -> float:
        """How far two ways to the same numbers may differ, in parts of the largest of them (see `difference`)."""
        return 1e-9 if self.precision == torch.float64 else 1e-4

    @property
    def longest(self) -> int:
        """Tokens of the longest texts: the whole context, unless the model is too large for it."""
        affordable = max(8, _WORK // self.run.model.num_parameters())
        return min(self.run.config.model.max_seq_len, LONGEST, affordable)

    @property
    def single_steps(self) -> int:
        """How many tokens may be read one by one."""
        return max(8, min(LONGEST, _SINGLE_STEPS // self.run.model.num_parameters()))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that texts are read at, rising: from one token to the whole context."""
        return tuple(sorted({1, 2, min(7, self.longest), self.longest}))

    @property
    def origin(self) -> str:
        """What is read, in words."""
        because = f" ({self.made_up_because})" if self.made_up_because else ""
        what = f"made-up text{because}" if self.data is None else "its own validation text"
        context = self.run.config.model.max_seq_len
        far = f", up to {self.longest} tokens of the context's {context}" if self.longest < context else ""
        rounded = "" if self.precision == torch.float64 else ", in float32"
        return f"{what}{far}{rounded}"

    @cached_property
    def ordinary(self) -> NDArray[np.int64]:
        """The ids of all tokens that are no special ones."""
        vocabulary = self.run.config.model.vocab_size
        assert vocabulary is not None
        return np.setdiff1d(np.arange(min(vocabulary, self.run.tokenizer.vocab_size)), self.roles.ids())

    def ids(self, length: int, rows: int = ROWS) -> Tensor:
        """Texts, (rows, length), as the model's causal stack (or its only one) reads them."""
        return self._windows(self._texts, length, rows)

    def sources(self, length: int, rows: int = ROWS) -> Tensor:
        """Sources of an encoder-decoder, (rows, length), without special tokens."""
        return self._windows(self._sources, length, rows)

    def texts(self, count: int = 8, tokens: int = 24) -> list[str]:
        """Some pieces of text, of the side that the model reads prompts of."""
        stream = self._sources if self.run.architecture == "encoder-decoder" else self._texts
        return [self.run.tokenizer.decode(row) for row in self._windows(stream, tokens, count).tolist()]

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(1)
        if self.run.architecture == "encoder-decoder":
            return self._joined(self.data.pairs("validation").target)
        view = self.data.text("validation")
        return view.padded(np.array([0]), np.array([min(len(view), _ENOUGH)]), self.roles.pad)[0]

    @cached_property
    def _sources(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(2)
        return self._joined(self.data.pairs("validation").source)

    def _made_up(self, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng(seed).choice(self.ordinary, _ENOUGH)

    def _joined(self, side: SequencesView) -> NDArray[np.int64]:
        """The sequences of one side, one after the other, without special tokens."""
        some: list[NDArray[np.int64]] = []
        while len(some) < len(side) and sum(map(len, some)) < _ENOUGH:
            some.append(side.sequence(len(some)))
        joined = np.concatenate(some)
        kept = joined[~np.isin(joined, self.roles.ids())]
        return kept if len(kept) else self._made_up(2)

    def _windows(self, stream: NDArray[np.int64], length: int, rows: int) -> Tensor:
        """Windows spread over a stream, which begins again where it ends."""
        starts = np.arange(rows) * max(1, len(stream) // rows)
        places = (starts[:, None] + np.arange(length)) % len(stream)
        return torch.from_numpy(stream[places]).to(self.run.device)
