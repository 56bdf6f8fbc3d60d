"""What every side of a benchmark of generation is given to do."""

from dataclasses import dataclass

import numpy as np

from tfcli.records.roles import TokenRoles

ROLES = TokenRoles(pad=0, bos=0, eos=1)
"""Random ids have no special tokens; models and configs want some. The rows of these two are zeros
(`synthetic_model.py`), so that neither is ever the likeliest token."""

_FIRST = 2
"""The first id that serves as nothing else."""

_MEDIAN_LENGTH, _SPREAD = 20, 0.6
"""Lengths of sentences in tokens: their logarithm is normal (Williams 1940), their mean 24, one in ten above 43."""


@dataclass(frozen=True)
class GenerationWork:
    """Prompts of random ids, and how many tokens to add to each.

    Attributes:
        batch: prompts at once.
        prompt_tokens: of each, what begins or ends it included.
        new_tokens: to be made for each.
        beam: 1 for greedy.
        sentences: translate so many sources of lengths as in real text instead, `batch` at a time.
        seed: of the ids.
    """

    batch: int
    prompt_tokens: int
    new_tokens: int
    beam: int
    sentences: int | None
    seed: int

    @property
    def texts(self) -> int:
        """How many texts are made."""
        return self.sentences or self.batch

    def prompts(self, architecture: str, vocab_size: int, context: int) -> list[list[int]]:
        """Ids to be read: of a decoder with its bos, of an encoder-decoder bare, without the end that follows."""
        draw = np.random.default_rng(self.seed)
        lengths = np.full(self.batch, self.prompt_tokens - 1)
        if self.sentences:
            drawn = draw.lognormal(np.log(_MEDIAN_LENGTH), _SPREAD, self.sentences).round()
            lengths = drawn.clip(1, context - 1).astype(np.int64)
        start = [ROLES.bos] if architecture == "decoder" else []
        return [start + draw.integers(_FIRST, vocab_size, length).tolist() for length in lengths]
