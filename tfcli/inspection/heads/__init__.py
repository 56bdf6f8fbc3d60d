"""What each attention head does: the role that its weights show, beside chance, and statistics of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from tfcli.inspection.attention import AttentionKind

NO_ROLE = "no clear role"


@dataclass(frozen=True)
class RoleShare:
    """How much of its attention a head gives to the keys of a role, where there are any."""

    role: str  # one that `role_keys` of roles.py finds: "previous token", "3 tokens before"
    share: float  # of the weight, from 0 to 1, mean over the rows that have such a key
    low: float | None  # from here to `high` is its 95 % interval over texts; None where they are too few
    high: float | None
    chance: float  # the share with equal weights on all visible keys
    rows: int  # that have such a key
    coverage: float  # their share of those measured

    @property
    def above_chance(self) -> float:
        """The share less chance."""
        return self.share - self.chance


@dataclass(frozen=True)
class HeadExample:
    """The row of a text that shows best what a head does."""

    text: str  # the sentence around the query and, of self-attention, the key
    source: str | None  # of cross-attention, that around the key
    query: tuple[int, int]
    key: tuple[int, int]
    weight: float
    prompt: str  # what `inspect attention` is to read to show it, with the target
    target: str | None


@dataclass(frozen=True)
class Head:
    """A head by its place, both from 0."""

    kind: AttentionKind
    layer: int
    head: int

    @property
    def place(self) -> str:
        """Layer and head: "1.0"."""
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True)
class HeadStatistics(Head):
    """One head; its figures are those of heads/statistics.py. None: the kind of attention has no such thing."""

    role: str  # one of RoleShare, or NO_ROLE
    at: tuple[str, ...]  # the query tokens at which it has it, the most frequent first; none: at all
    does: RoleShare | None  # how much, measured on other texts than the role was chosen on, where there are two
    beside: str | None  # "first token" or "end mark", where the rest of its attention lies; None: not there
    shares: tuple[RoleShare, ...]  # of every role that has a key, on all rows, measured on the same texts as `does`
    entropy: float
    entropy_share: float | None  # of the largest there could be; None where every query sees one key alone
    sharpness: float
    distance: float | None
    induction: float | None
    duplicate: float | None
    even: float | None  # either of these two with equal weights on all visible keys
    in_order: float | None
    favourites: tuple[tuple[str, float], ...]  # the tokens that get most weight, each with its share of all weight
    pairs: tuple[tuple[str, str], ...]  # from which token to which its largest weights go most often
    example: HeadExample  # of its role; without one, of its largest weights

    def of(self, role: str | None) -> RoleShare | None:
        """The share of a role, where it has one."""
        return next((one for one in self.shares if one.role == role), None)


@dataclass(frozen=True)
class HeadsRecord:
    """Every head of a model, or those asked for, and what they were measured on."""

    run: str
    measured_on: str  # in words: "the text", "80 of 2,012 documents of the validation part of mine.txt"
    texts: int
    chosen_apart: bool  # whether roles were chosen on one half of the texts and measured on the other
    tokens: int  # of all those texts, of the side with the most
    repeated: int | None  # random tokens read twice in a row, in so many `sequences`; None: the context is too short
    sequences: int
    finder: str | None  # the search of `inspect heads --find` that this run can have
    heads: tuple[HeadStatistics, ...]


@dataclass(frozen=True)
class ReadSentence:
    """One sentence and where the head looks in it."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    query: str  # the word that is read or predicted
    right: tuple[int, ...]  # numbers of the words that are right
    hit: bool  # whether one of these gets the most


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
class AlignmentFound:
    """The cross-attention head that aligns words, and how many of them it finds."""

    head: Head
    training_pairs: int  # on which it is chosen
    training: Share
    held_out_pairs: int
    held_out: Share
    reordered: Share  # of these, words that change their place
    mean_of_heads: Share  # with the average of all heads
    same_place: Share  # without looking: the source word of the same number
    chance: float  # any source word
    examples: tuple[ReadSentence, ...]


@dataclass(frozen=True)
class SenseShares:
    """A share for each sense of "bank"."""

    river: Share
    money: Share


@dataclass(frozen=True)
class WordFound:
    """The head that finds one deciding word, and how often it gets the most of any content word."""

    word: str
    head: Head
    training: Share
    held_out: Share


@dataclass(frozen=True)
class HeadReads:
    """A sentence and where one head looks in it."""

    head: Head
    sentence: ReadSentence


@dataclass(frozen=True)
class BankVectors:
    """Mean cosines of the vectors of "bank" at one depth, over pairs of held-out sentences that different words decide;
    depth 0 is what enters the first layer, depth l what leaves layer l − 1. None where there is no such pair."""

    depth: int
    river: float | None  # both of a river
    money: float | None
    between: float | None  # one of each
    nearest: Share | None  # whose most similar other has the same sense; None where all are equal
    lecture: float | None  # of Bishop's two sentences


@dataclass(frozen=True)
class BankFound:
    """The head that looks from "bank" at the deciding word, how many it finds, and how far apart both vectors are."""

    head: Head
    training: SenseShares
    held_out: SenseShares
    chance: float  # any content word
    words: tuple[WordFound, ...]  # that decide in Bishop's two sentences
    lecture: tuple[HeadReads, ...]  # these, each by the head and by those of its words
    vectors: tuple[BankVectors, ...]
