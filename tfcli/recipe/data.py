"""``[tokenizer]`` and ``[data]``: sources of text, how they are read, mixed, cleaned and divided, and its tokenizer."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.errors import shortened
from tfcli.recipe import Refusal, Section
from tfcli.records.roles import BOS, EOS, MASK, PAD, ROLE_NAMES, UNK

Algorithm = Literal["bpe", "wordpiece", "unigram", "word", "char"]
OnBadRecord = Literal["refuse", "skip"]
Header = Literal["auto"] | bool
CLEANING_KEYS = ("normalize", "min_characters", "max_characters", "max_length_ratio", "filter_pairs", "deduplicate")
"""Keys of the data section that change or remove documents before they are divided."""


@dataclass(frozen=True)
class TokenizerSection(Section):
    """Train a tokenizer on the training text, or use one that exists."""

    algorithm: Algorithm = "bpe"
    """bpe (byte-pair encoding) is byte-level and spells any text. To the others, what they cannot spell is unknown."""

    vocab_size: Annotated[int, Ge(6), Le(2_000_000), Unit("ids")] = 2048
    """The most ids, special tokens included; a small text may give fewer. char and word keep the most frequent."""

    min_frequency: Annotated[int, Ge(1), Unit("times")] = 2
    """A merge, a word or a subword that occurs less often is not learned (char keeps every character)."""

    lowercase: bool = False
    """Turn text into lower case first. Decoded text is then lower case, too."""

    special_tokens: tuple[str, ...] = ()
    """Your own special tokens, such as <|user|>, beside those that begin, end, pad and mask."""

    pad: str = PAD
    """The special token that fills up batches. It and the four below may have any name that a tokenizer.json is
    read by, as [PAD] or <|pad|>; "": none, and another role's token does it (docs/tokenizers.md)."""

    bos: str = BOS
    """The special token that begins a text (beginning of sequence). "": the one that pads, else the one that ends."""

    eos: str = EOS
    """The special token that ends a text (end of sequence)."""

    mask: str = MASK
    """The special token that hides a token from an encoder; "": none."""

    unk: str = UNK
    """The special token for what cannot be spelled; byte-level bpe has none."""

    sample_bytes: Annotated[int, Ge(1_000_000), Unit("bytes")] = 1_000_000_000
    """Of a longer text, so many bytes are learned from (tokenizer training on a sample), drawn from everywhere and
    always the same; its characters are all in the alphabet nevertheless. char reads all."""

    byte_fallback: bool = False
    """For unigram: what is not in the vocabulary is spelled in bytes, so that nothing is unknown and every text comes
    back exactly. Characters beyond 99.95 % of the text are left to them."""

    path: Annotated[str, MinLen(1)] | None = None
    """A tokenizer.json, or a run, whose tokenizer is taken instead of training one; the other keys are then unused."""

    def refusals(self) -> Iterator[Refusal]:
        """Names of special tokens that would be read as something else, too."""
        if self.byte_fallback and self.algorithm != "unigram":
            remedy = "leave it out" if self.algorithm == "bpe" else "choose unigram, or bpe"
            yield f"tokenizer.byte_fallback is for unigram, and tokenizer.algorithm = {self.algorithm!r}", remedy
        for role, names in ROLE_NAMES.items():
            token = getattr(self, role)
            if token not in names and (token or role not in ("pad", "bos", "mask")):
                problem = f"tokenizer.{role} = {shortened(token)!r} is no name that a tokenizer.json is read by"
                yield problem, f"choose {', '.join(names)}"
            for other in self.special_tokens:
                if other in names and (not token or names.index(other) < names.index(token)):
                    yield f"The special token {other!r} would be read as tokenizer.{role}", "set that, or leave it out"
        serving = [getattr(self, role) for role in ROLE_NAMES]
        # A set: a search in the tokens before would take quadratic time.
        already_there = set(serving)
        for token in self.special_tokens:
            if not re.fullmatch(r"(?=.*\w)(?=.*[^\w\s])\S{2,80}", token):
                problem = f"tokenizer.special_tokens has {shortened(token)!r}, which a text could hold as a word"
                yield problem, "write a word and a sign, without spaces, as <|user|>"
            if token in already_there:
                yield f"The special token {shortened(token)!r} is there already", "leave it out"
            already_there.add(token)


@dataclass(frozen=True)
class WeightedSource(Section):
    """A source of a mixture."""

    source: Annotated[str, MinLen(1)]
    """As `data.source` names one."""

    weight: Annotated[float, Gt(0)] = 1.0
    """Its share of the training tokens, in any unit."""

    max_epochs: Annotated[int, Ge(1), Unit("times")] | None = None
    """The most times it is read while the largest source is read once; then others share its part. None: 100 times,
    and weights that need more are refused."""

    text_field: Annotated[str, MinLen(1)] | None = None
    """The column of its text, where it is a table. None: `data.columns`."""


@dataclass(frozen=True)
class DataSection(Section):
    """Where the text comes from and how it is divided into training and validation."""

    source: str | tuple[str, ...] | None = None
    """Paths, globs, `-`, builtin:NAME or hf:owner/name. None: builtin:stories, or builtin:pt-en for pairs."""

    sources: Annotated[tuple[WeightedSource, ...], MinLen(1)] | None = None
    """Sources mixed by weight, each with source, weight, max_epochs and text_field; instead of `source`. At every point
    each has its share of the tokens. A pass ends when the source of most tokens has been read once. None: `source`."""

    validation: Annotated[str, MinLen(1)] | None = None
    """The source of the validation part, where `split` is "file"."""

    split: Literal["hash", "tail", "file"] | None = None
    """How the validation part is held out (train/validation split). hash: by content, so that adding documents moves
    none of the others. tail: the last share of the text. file: `validation` names it. None: file where `validation` is
    given; else the source's own division, if it has one; else hash, or tail below 100 documents."""

    validation_fraction: Annotated[float, Gt(0), Lt(1), Unit("share")] = 0.1
    """Share of the validation part: of the documents for hash, of the characters for tail."""

    columns: tuple[str, ...] | None = None
    """Columns to read from tables, by name or number: one for text, two for pairs (source, target), those of the task
    for labelled texts (text, label). None: by their usual names."""

    header: Header = "auto"
    """Whether the first row of a .csv or .tsv file names the columns. auto: decide by usual names, else by what the
    other rows look like, and report the decision. true: it names them. false: it is data."""

    max_documents: Annotated[int, Ge(1), Unit("documents")] | None = None
    """Read no more documents than this. None: all, or a built-in generator's own number."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the built-in generators."""

    separator: Annotated[str, MinLen(1)] | None = None
    """What stands between two documents of a plain text file (record separator): "blank line", or a text such as
    "<|endoftext|>". None: a whole file is one document."""

    on_bad_record: OnBadRecord = "refuse"
    """What an unreadable record does. refuse: end the command. skip: be left out and counted; the first are listed."""

    normalize: Literal["nfc", "nfkc"] | None = None
    """Put the text into a Unicode normalization form. nfc: the same character has the same code. nfkc: ligatures, wide
    and superscript forms become plain ones, too. None: text stays as it is."""

    min_characters: Annotated[int, Ge(1), Unit("characters")] | None = None
    """Leave out shorter documents, and pairs with a shorter side."""

    max_characters: Annotated[int, Ge(1), Unit("characters")] | None = None
    """Leave out longer documents, and pairs with a longer side."""

    max_length_ratio: Annotated[float, Ge(1)] | None = None
    """Leave out pairs of which one side has more characters than this many times the other."""

    filter_pairs: bool | None = None
    """Leave out pairs whose sides are the same, or of which a side has no letter, in whatever language."""

    deduplicate: Literal["exact", "near"] | None = None
    """Leave out documents that came before, in any source or part. near: near copies, too (with the extra `dedup`)."""

    drop_duplicates: Literal["train", "validation"] | None = None
    """Leave out of this part the documents that stand, letter for letter, in the other one, too."""

    def refusals(self) -> Iterator[Refusal]:
        """Sources that are none, and lengths that are out of order."""
        data = self
        if data.source and data.sources:
            yield "data.source and data.sources both name the text", "leave data.source out"
        if not all(name.strip() for name in data.names):
            yield "data.source has an empty name", "name a source, or leave data.source out"
        if data.source == ():
            yield "data.source = [] names no source", "name one, or leave data.source out"
        if (data.min_characters or 0) > (data.max_characters or math.inf):
            yield f"{data.min_characters = } is above {data.max_characters = }", "keep the lengths between the two"

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, by the names that are written."""
        if self.sources:
            return tuple(one.source for one in self.sources)
        return (self.source,) if isinstance(self.source, str) else self.source or ()

    @property
    def reading(self) -> dict[str, Any]:
        """How files are read, whichever they are: arguments of `open_source`."""
        return {name: getattr(self, name) for name in ("columns", "header", "separator", "on_bad_record")}
