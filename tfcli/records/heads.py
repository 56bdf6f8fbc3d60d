"""What each attention head does: the role that its weights show, beside chance, and statistics of them."""

from dataclasses import dataclass

from tfcli.records.attention import AttentionKind

NO_ROLE = "no clear role"


@dataclass(frozen=True)
class RoleShare:
    """How much of its attention a head gives to the keys of a role, where there are any.

    Args:
        role: "previous token", "next token", "3 tokens before", "itself", "first token", "end mark", "same token",
            "after the same token", "punctuation", "end of a sentence", "space", "who acts", "verb", "where", "thing",
            "aligned word", "same place".
        share: of the weight, from 0 to 1, mean over the rows that have such a key. low, high: where 95 % of resamples
            of the texts have it; None where they are too few. chance: the same with equal weights on all visible keys.
        rows: that have such a key, of those measured. coverage: their share.
    """

    role: str
    share: float
    low: float | None
    high: float | None
    chance: float
    rows: int
    coverage: float


@dataclass(frozen=True)
class HeadExample:
    """The row of a text that shows best what a head does.

    Args:
        text: the sentence around the query; of self-attention, with the key. source: of cross-attention, the one of
            the key; else None.
        query, key: from where to where they stand. weight: what the key gets.
        prompt, target: what `inspect attention` is to read to show it.
    """

    text: str
    source: str | None
    query: tuple[int, int]
    key: tuple[int, int]
    weight: float
    prompt: str
    target: str | None


@dataclass(frozen=True)
class HeadStatistics:
    """One head. None: the kind of attention has no such thing.

    Args:
        role: one of RoleShare, or NO_ROLE; at: the query tokens at which it has it, the most frequent first; none:
            at all. does: how much, measured on other texts than the role was chosen on, where there are two.
        beside: "first token" or "end mark", where the rest of its attention lies; None: not there.
        shares: of every role that has a key, on all rows, measured on the same texts as `does`.
        entropy: of a row, in nats, mean over all queries. entropy_share: of the largest there could be;
            None where every query sees one key alone.
        sharpness: a row's largest weight.
        distance: how far away, in tokens.
        induction, duplicate: on random tokens read twice, share on the token behind the earlier copy, and on that copy.
        in_order: of cross-attention, how often the strongest source token does not step back.
        favourites: the tokens that get most weight wherever they stand, each with its share of all weight.
        pairs: from which token to which its largest weights go most often.
        example: of its role; without one, of its largest weights.
    """

    kind: AttentionKind
    layer: int
    head: int
    role: str
    at: tuple[str, ...]
    does: RoleShare | None
    beside: str | None
    shares: tuple[RoleShare, ...]
    entropy: float
    entropy_share: float | None
    sharpness: float
    distance: float | None
    induction: float | None
    duplicate: float | None
    in_order: float | None
    favourites: tuple[tuple[str, float], ...]
    pairs: tuple[tuple[str, str], ...]
    example: HeadExample

    def of(self, role: str | None) -> RoleShare | None:
        """The share of a role, where it has one."""
        return next((one for one in self.shares if one.role == role), None)


@dataclass(frozen=True)
class HeadsRecord:
    """Every head of a model, or those asked for, and what they were measured on.

    Args:
        run: its path.
        measured_on: the text in words: "the text", "80 of 2,012 documents of the validation part of mine.txt".
        texts: how many. chosen_apart: whether roles were chosen on one half of them and measured on the other.
        tokens: of all those texts, of the side with the most.
        repeated: how many random tokens were read twice in a row, None where the context is too short;
            sequences: how many such sequences.
        finder: the search of `inspect heads --find` that this run can have.
    """

    run: str
    measured_on: str
    texts: int
    chosen_apart: bool
    tokens: int
    repeated: int | None
    sequences: int
    finder: str | None
    heads: tuple[HeadStatistics, ...]
