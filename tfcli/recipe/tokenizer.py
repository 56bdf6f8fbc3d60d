"""``[tokenizer]``: how text becomes ids."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen, Unit

from tfcli.errors import UsageError, shortened

OWN_SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<mask>", "<unk>")
"""Those that every tokenizer trained here has; byte-level bpe spells any text and needs no unknown."""

Algorithm = Literal["bpe", "wordpiece", "unigram", "word", "char"]


@dataclass(frozen=True)
class TokenizerSection:
    """Train a tokenizer on the training text, or use one that exists."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    algorithm: Algorithm = "bpe"
    """bpe is byte-level: it can spell any text. The others count what they cannot spell as unknown."""

    vocab_size: Annotated[int, Ge(6), Le(2_000_000), Unit("ids")] = 2048
    """Ids at most, special tokens included; a small text may give fewer. char and word keep the most frequent."""

    min_frequency: Annotated[int, Ge(1), Unit("times")] = 2
    """A merge, a word or a subword rarer than this is not learned (char keeps every character)."""

    lowercase: bool = False
    """Fold case first. What is decoded is then lower case too."""

    special_tokens: tuple[str, ...] = ()
    """Special tokens of one's own, such as <|user|>, beside those that begin, end, pad and mask."""

    path: Annotated[str, MinLen(1)] | None = None
    """A tokenizer.json or a run to take instead of training one; the other fields then play no part."""

    def __post_init__(self) -> None:
        for number, token in enumerate(self.special_tokens):
            if not re.fullmatch(r"(?=.*\w)(?=.*[^\w\s])\S{2,80}", token):
                raise UsageError(
                    f"tokenizer.special_tokens has {shortened(token)!r}, which a text could hold as a word",
                    "write a word and a sign, without spaces, as <|user|>",
                )
            if token in self.special_tokens[:number] or token in OWN_SPECIAL_TOKENS:
                raise UsageError(f"The special token {token!r} is there already", "leave it out")
