"""Random tokens read twice in a row: nothing but the first copy tells what comes in the second.

On such sequences induction heads (Olsson et al. 2022) and duplicate-token heads show themselves.
"""

from dataclasses import dataclass

import numpy as np

from tfcli.inspection.reading import Inputs, framed
from tfcli.runs.load import LoadedRun

SEQUENCES = 4
_LONGEST = 50
_SHORTEST = 4
_SEED = 0


@dataclass(frozen=True)
class Repeated:
    """Inputs that hold `period` tokens twice; the first copy begins at `start`, of each side it stands on."""

    inputs: Inputs
    period: int
    encoder_start: int
    decoder_start: int


def repeated_sequences(run: LoadedRun) -> list[Repeated]:
    """A few sequences of the run's own ordinary tokens, always the same; none where the context is too short.

    The tokens of a copy all differ while the vocabulary allows it, so that each has one earlier copy.
    """
    roles, ids = run.config.roles, np.array(sorted(run.tokenizer.ordinary_ids))
    before = 1 + max(map(len, (roles.source_start, roles.target_prefix, roles.text_prefix)))
    period = min(_LONGEST, len(ids), (run.config.model.max_seq_len - before) // 2)
    if period < _SHORTEST:
        return []
    rng = np.random.default_rng(_SEED)
    return [_twice(run, rng.choice(ids, period, replace=False).tolist()) for _ in range(SEQUENCES)]


def _twice(run: LoadedRun, copy: list[int]) -> Repeated:
    roles, twice = run.config.roles, copy * 2
    before = len(roles.text_prefix)
    starts = {"decoder": (0, before), "encoder": (before, 0)}
    both = len(roles.source_start), len(roles.target_prefix)
    return Repeated(framed(run, twice, twice), len(copy), *starts.get(run.architecture, both))
