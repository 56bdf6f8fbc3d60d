"""What each attention head does: statistics of its weights, and the role that they name."""

from dataclasses import dataclass
from typing import Literal

from tfcli.records.attention import AttentionKind

Role = Literal[
    "previous token",
    "next token",
    "first token",
    "itself",
    "induction",
    "duplicate token",
    "in order",
    "one token",
    "spread out",
    "by content",
]


@dataclass(frozen=True)
class HeadStatistics:
    """One head. Shares are of weight, from 0 to 1, means over the queries that have such a key.

    None: the kind of attention has no such key.

    Args:
        entropy: of a row, in nats, mean over all queries. entropy_share: of the largest there could be;
            None where every query sees one key alone.
        sharpness: a row's largest weight.
        distance: how far away, in tokens.
        first: share on the first token; itself: on the query's own; previous, next: on its neighbours.
        induction, duplicate: on random tokens read twice, share on the token behind the earlier copy, and on that copy.
        in_order: of cross-attention, how often the strongest source token does not step back.
        favourites: the tokens that get most weight wherever they stand, each with its share of all weight.
        role, role_score: what the head does most, and that statistic.
    """

    kind: AttentionKind
    layer: int
    head: int
    entropy: float
    entropy_share: float | None
    sharpness: float
    distance: float | None
    first: float
    itself: float | None
    previous: float | None
    next: float | None
    induction: float | None
    duplicate: float | None
    in_order: float | None
    favourites: tuple[tuple[str, float], ...]
    role: Role
    role_score: float


@dataclass(frozen=True)
class HeadsRecord:
    """Every head of a model, and what it was measured on.

    Args:
        measured_on: the text in words: "your text", "8 documents of builtin:stories".
        tokens: queries of all those texts, of the side with the most.
        repeated: how many random tokens were read twice in a row, None where the context is too short;
            sequences: how many such sequences.
    """

    measured_on: str
    tokens: int
    repeated: int | None
    sequences: int
    heads: tuple[HeadStatistics, ...]
