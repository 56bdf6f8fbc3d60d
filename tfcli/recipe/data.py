"""``[data]`` and ``[tokenizer]``: which text, which part of it is held out, and how it becomes ids."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.errors import UsageError, shortened
from tfcli.recipe import Section

Split = Literal["hash", "tail", "file"]


@dataclass(frozen=True)
class DataSection(Section):
    """Where the text comes from and how it is divided into training and validation."""

    source: str | tuple[str, ...] | None = None
    """Paths, globs, `-`, builtin:NAME or hf:owner/name. None: builtin:stories, or builtin:pt-en for pairs."""

    validation: Annotated[str, MinLen(1)] | None = None
    """The source of the validation part, where `split` is "file"."""

    split: Split | None = None
    """How the validation part is held out (train/validation split). hash: by content, so that adding documents moves
    none of the others. tail: the last share of the text. file: `validation` names it. None: file where `validation` is
    given; else the source's own division, if it has one; else hash, or tail below 100 documents."""

    validation_fraction: Annotated[float, Gt(0), Lt(1), Unit("share")] = 0.1
    """Share of the validation part: of the documents for hash, of the characters for tail."""

    columns: tuple[str, ...] | None = None
    """Columns to read from tables: one for text, two (source, target) for pairs. None: they are found by their
    names."""

    max_documents: Annotated[int, Ge(1), Unit("documents")] | None = None
    """Read no more documents than this. None: all, or a built-in generator's own number."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the built-in generators."""

    def __post_init__(self) -> None:
        for name in (self.source,) if isinstance(self.source, str) else self.source or ():
            if not name.strip():
                raise UsageError("data.source has an empty name", "name a source, or leave data.source out")
        if self.source == ():
            raise UsageError("data.source = [] names no source", "name one, or leave data.source out")


OWN_SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<mask>", "<unk>")
"""Special tokens of every tokenizer that is trained here; byte-level bpe spells any text and needs no unknown."""

Algorithm = Literal["bpe", "wordpiece", "unigram", "word", "char"]


@dataclass(frozen=True)
class TokenizerSection(Section):
    """Train a tokenizer on the training text, or use one that exists."""

    algorithm: Algorithm = "bpe"
    """bpe (byte-pair encoding) is byte-level and can spell any text. The others read what they cannot spell as
    unknown."""

    vocab_size: Annotated[int, Ge(6), Le(2_000_000), Unit("ids")] = 2048
    """The most ids it may have, special tokens included; a small text may give fewer. char and word keep the most
    frequent."""

    min_frequency: Annotated[int, Ge(1), Unit("times")] = 2
    """A merge, a word or a subword that occurs less often is not learned (char keeps every character)."""

    lowercase: bool = False
    """Turn text into lower case first. Decoded text is then lower case, too."""

    special_tokens: tuple[str, ...] = ()
    """Your own special tokens, such as <|user|>, beside those that begin, end, pad and mask."""

    path: Annotated[str, MinLen(1)] | None = None
    """A tokenizer.json, or a run, whose tokenizer is taken instead of training one; the other keys are then unused."""

    def __post_init__(self) -> None:
        for number, token in enumerate(self.special_tokens):
            if not re.fullmatch(r"(?=.*\w)(?=.*[^\w\s])\S{2,80}", token):
                problem = f"tokenizer.special_tokens has {shortened(token)!r}, which a text could hold as a word"
                raise UsageError(problem, "write a word and a sign, without spaces, as <|user|>")
            if token in self.special_tokens[:number] or token in OWN_SPECIAL_TOKENS:
                raise UsageError(f"The special token {token!r} is there already", "leave it out")
