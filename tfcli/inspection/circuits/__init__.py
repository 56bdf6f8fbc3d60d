"""Circuits: what a head seeks and writes through the embeddings, which heads read each other, what excites a neuron."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Circuit:
    """A number: effective ranks of a head ("QK", "OV"), its score ("copying", and as it was initialised, "untrained"),
    the share of what it writes that another reads ("Q-", "K-", "V-composition"); a score or logit of a token with
    another ("seeks", "writes"); of a neuron its activation ("mean", share "positive", most "active" in a text), and the
    share of held-out texts in which it is most active on a token ("first")."""

    by: str
    of: str
    other: str | None
    value: float
    chance: float | None = None  # what random matrices, vectors or places have
    spread: float | None = None  # the standard deviation of that
    stands_out: bool = False


@dataclass(frozen=True)
class Circuits:
    """Of a model, of one of its heads, or of a neuron, which is measured on texts."""

    run: str
    of: str
    rows: tuple[Circuit, ...]
    notes: tuple[str, ...]  # what is left out, by the keys of words.toml
    measured_on: str = ""
