"""Random numbers as a pure function of a key, so that any batch can be made again without those before it."""

import numpy as np

ORDER = 0
"""Stream of the order of an epoch: key (seed, ORDER, epoch)."""

MASKS = 1
"""Stream of the masks of a batch: key (seed, MASKS, batch number)."""


def generator(*key: int) -> np.random.Generator:
    """A counter-based generator (Philox; Salmon et al. 2011) for this key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
