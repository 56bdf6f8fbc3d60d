"""A head that was looked for: how it was chosen on training texts, and what it does on held-out ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from tfcli.records.attention import AttentionKind


@dataclass(frozen=True)
class ReadSentence:
    """One held-out sentence and where the head looks in it.

    Args:
        words: of the side that is looked at, in their order.
        weights: of each word, summed over its tokens.
        query: the word that is read or predicted on the row shown.
        right: the numbers of the words that are to get the most.
        hit: whether one of them does.
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    query: str
    right: tuple[int, ...]
    hit: bool


@dataclass(frozen=True)
class Share:
    """How often something was so: `hits` of `count`."""

    hits: int
    count: int

    @classmethod
    def of(cls, hits: Iterable[bool]) -> "Share":
        """Count how many of them are true."""
        found = list(hits)
        return cls(int(sum(found)), len(found))

    @property
    def value(self) -> float:
        """From 0 to 1."""
        return self.hits / self.count


@dataclass(frozen=True)
class Head:
    """A head by its place, both from 0."""

    kind: AttentionKind
    layer: int
    head: int


@dataclass(frozen=True)
class AlignmentFound:
    """The cross-attention head that aligns words, chosen on training pairs and measured on held-out ones.

    Args:
        training: words that the chosen head finds in the training pairs.
        held_out: in the held-out pairs; `reordered` of them, those that stand before a word which their source
            word follows.
        mean_of_heads: the same with the average of all heads; `same_place`: without looking, the source word of the
            same number; `chance`: any source word.
    """

    head: Head
    training_pairs: int
    training: Share
    held_out_pairs: int
    held_out: Share
    reordered: Share
    mean_of_heads: Share
    same_place: Share
    chance: float
    examples: tuple[ReadSentence, ...]


@dataclass(frozen=True)
class SenseShares:
    """A share for each sense of "bank"."""

    river: Share
    money: Share


@dataclass(frozen=True)
class BankFound:
    """The head that looks from "bank" at the word that decides its sense.

    Args:
        row: from where it looks, "bank" or "the word after".
        training, held_out: deciding words that it finds, in the texts it was chosen on and in others.
        shuffled: in the held-out texts with the tokens before "bank" in another order.
        chance: any content word.
        beside: in the corpus's other held-out sentences, where the words beside "bank" already tell;
            None: there are none.
    """

    head: Head
    row: str
    training: SenseShares
    held_out: SenseShares
    shuffled: SenseShares
    chance: float
    beside: Share | None
    examples: tuple[ReadSentence, ...]
