"""Train/validation split: which documents train and which are held out."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from tfcli.corpora import PARTS, TASKS, Document, Documents, Kind, Pair, Part, Source, is_blank, stretches, texts
from tfcli.corpora.open import DEFAULT, joined, open_source
from tfcli.errors import UsageError
from tfcli.files import digest
from tfcli.recipe.data import CLEANING_KEYS, DataSection, WeightedSource
from tfcli.recipe.loading import naming_text
from tfcli.records.dataset import SkippedRecords, TableReading

if TYPE_CHECKING:
    from tfcli.corpora.cleaning import Cleaning, Copies

SplitMethod = Literal["hash", "tail", "file", "own"]
_FEWEST_FOR_HASH = 100  # with fewer documents an automatic split is `tail`, and one text file has a validation part
_FORMAT_VERSION = 1
_HASH_BYTES = 8


@dataclass(frozen=True)
class WeightedSplit:
    """A divided source of a mixture.

    Attributes:
        split: The source.
        weight: Its share of the training tokens, in any unit.
        max_epochs: How often it is read at most; None for no limit.
        text_field: The column of its text, if the recipe names one for this source.
    """

    split: "TrainValidationSplit"
    weight: float
    max_epochs: int | None = None
    text_field: str | None = None


@dataclass(frozen=True)
class TrainValidationSplit:
    """A source divided into a training part and a validation part.

    hash: by the content of the document (of a pair, its source side), so that adding documents moves none.
    tail: the last share of all characters, cut inside a text, never inside a pair.
    file: another source is the validation part.  own: the source's own division."""

    source: Source
    split: SplitMethod
    validation_fraction: float
    validation: Source | None = None  # the validation part, where `split` is "file"
    mixture: tuple["WeightedSplit", ...] = ()  # the sources, where they have weights: each divided on its own
    cleaning: "Cleaning | None" = None  # what has been removed before it was divided
    copies: "Copies | None" = None  # the documents that a part loses because they stand in the other one, too

    @property
    def may_overlap(self) -> bool:
        """Whether a document may stand in both parts: not where its content says in which it stands, and it says
        nothing where both are the same source, which nobody trains on."""
        if self.mixture:
            return any(one.split.may_overlap for one in self.mixture)
        return self.split != "hash" and self.validation is not self.source

    @property
    def removed(self) -> dict[str, int]:
        """How many documents have been left out for each reason."""
        found = self.cleaning.removed if self.cleaning else {}
        dropped = self.copies.removed if self.copies else 0
        return {**found, "in_both_parts": dropped} if dropped else found

    def parts(self) -> Iterator[tuple[Part, Document]]:
        """Every document or piece, with its part; afresh at each call. UsageError at the end: a part holds no text."""
        missing = list(PARTS)
        for part, document in self.divided():
            if part in missing and not all(map(is_blank, texts(document))):
                missing.remove(part)
            yield part, document
        if missing:
            raise self._empty(missing[0])

    def only(self, part: Part) -> Iterator[Document]:
        """The documents of one part; divided by file, that file alone is read, and need not hold any text."""
        if self.validation and not self.copies:
            return (self.source if part == "train" else self.validation).documents()
        return (document for its_part, document in self.parts() if its_part == part)

    def read(self) -> Iterator[Source]:
        """The sources that are read, each once."""
        if self.mixture:
            yield from chain.from_iterable(one.split.read() for one in self.mixture)
        else:
            yield from dict.fromkeys(filter(None, (self.source, self.validation)))

    def skipped(self) -> SkippedRecords:
        """The records that could not be read, in what has been read."""
        return reduce(SkippedRecords.joined, (source.skipped() for source in self.read()))

    def tables(self) -> tuple[TableReading, ...]:
        """How the CSV and TSV files are read, in what is read."""
        return tuple(chain.from_iterable(source.tables for source in self.read()))

    def require_unchanged(self) -> None:
        """Refuse, by a TfcliError, sources that have changed since they were opened."""
        for source in self.read():
            source.require_unchanged()

    @cached_property
    def fingerprint(self) -> str:
        """Of the content and of how it is divided."""
        if self.mixture:
            return digest("mixture", [(one.split.fingerprint, one.weight, one.max_epochs) for one in self.mixture])
        if self.copies:
            return digest("without copies", self.copies.part, replace(self, copies=None).fingerprint)
        fraction = self.validation_fraction if self.split in ("hash", "tail") else None
        held_out = self.validation.fingerprint() if self.validation else None
        return digest(_FORMAT_VERSION, self.source.fingerprint(), self.split, fraction, held_out)

    def divided(self) -> Iterator[tuple[Part, Document]]:
        """As `parts`, also where one holds no text."""
        if self.mixture:
            return chain.from_iterable(one.split.divided() for one in self.mixture)
        if self.copies:
            return self.copies.kept(replace(self, copies=None).divided())
        if self.split == "own":
            assert self.source.divided is not None
            return self.source.divided()
        if self.validation:
            both = zip(PARTS, (self.source, self.validation), strict=True)
            return ((part, document) for part, source in both for document in source.documents())
        fraction = Fraction(str(self.validation_fraction))
        return (_by_hash if self.split == "hash" else _by_tail)(self.source.documents, fraction)

    def _empty(self, part: Part) -> UsageError:
        names = ", ".join(self.source.names)
        if removed := self.removed:
            problem = f"The {part} part of {names} is empty without the {sum(removed.values())} documents left out"
            return UsageError(f"{problem} ({', '.join(removed)})", "give more text, or leave out fewer documents")
        if self.split == "own":
            problem = f"The {part} part of {names} is empty"
            return UsageError(problem, "read more documents, or set data.split to hash or tail")
        how = f"by {self.split} with data.validation_fraction = {self.validation_fraction}"
        problem = f"Dividing {names} {how} leaves the {part} part empty"
        other = "tail" if self.split == "hash" else "hash"
        return UsageError(problem, f"give more text, another fraction, or data.split = {other}")


def evaluation_only(source: Source) -> TrainValidationSplit:
    """A source whose documents are all there to be evaluated on: nothing trains on it."""
    return TrainValidationSplit(source, "file", 0.5, validation=source)


def open_split(section: DataSection, kind: Kind, *, as_before: bool = False) -> TrainValidationSplit:
    """The source of a recipe's data section, or the built-in of that kind, cleaned and divided; of mixtures, each.
    `as_before`: CSV and TSV files are read as versions before `data.header` read them."""
    with naming_text(section):
        if section.sources is None:
            opened = _open(section, kind, as_before=as_before)
        else:
            opened = _open_mixture(section, section.sources, kind, as_before=as_before)
    return without_copies(opened, section)


def _open(
    section: DataSection,
    kind: Kind,
    cleaning: "Cleaning | None" = None,
    held_out: Source | None = None,
    *,
    as_before: bool,
) -> TrainValidationSplit:
    source = open_source(
        section.source or DEFAULT[kind],
        kind,
        max_documents=section.max_documents,
        seed=section.seed,
        as_before=as_before,
        **section.reading,
    )
    return split_source(source, section, kind, cleaning, held_out, as_before=as_before)


def _open_mixture(
    section: DataSection, sources: Sequence[WeightedSource], kind: Kind, *, as_before: bool
) -> TrainValidationSplit:
    """Every source divided on its own; a file of validation is held out once."""
    shares: list[WeightedSplit] = []
    cleaning, nothing = _cleaning(section, kind), Source((), kind, lambda: iter(()), lambda: "")
    for one in sources:
        columns = section.columns if one.text_field is None else (one.text_field,)
        own = replace(section, source=one.source, sources=None, columns=columns)
        split = _open(own, kind, cleaning, nothing if shares else None, as_before=as_before)
        shares.append(WeightedSplit(split, one.weight, one.max_epochs, one.text_field))
    splits = [share.split for share in shares]
    source, fraction = joined([split.source for split in splits], kind), section.validation_fraction
    method = splits[0].split if len({split.split for split in splits}) == 1 else "own"
    return TrainValidationSplit(source, method, fraction, mixture=tuple(shares), cleaning=cleaning)


def _cleaning(section: DataSection, kind: Kind) -> "Cleaning | None":
    for key in ("max_length_ratio", "filter_pairs"):
        if kind != "pairs" and getattr(section, key):
            raise UsageError(f"data.{key} is of pairs, and this is text", f"leave data.{key} out")
    if kind in TASKS and section.normalize:
        raise UsageError("data.normalize would move the characters that labels are of", "normalize the file itself")
    if not any(getattr(section, key) for key in CLEANING_KEYS):
        return None
    from tfcli.corpora.cleaning import Cleaning

    return Cleaning(section)


def without_copies(division: TrainValidationSplit, section: DataSection) -> TrainValidationSplit:
    """The division without the documents of `data.drop_duplicates`, in whatever source they stand."""
    if section.drop_duplicates is None or not division.may_overlap:
        return division
    from tfcli.corpora.cleaning import Copies

    one_by_one = [one.split for one in division.mixture] or [division]
    copies = Copies(section.drop_duplicates, [one.divided for one in one_by_one])
    mixture = tuple(replace(one, split=replace(one.split, copies=copies)) for one in division.mixture)
    return replace(division, mixture=mixture, copies=copies)


def split_source(
    source: Source,
    section: DataSection,
    kind: Kind,
    cleaning: "Cleaning | None" = None,
    held_out: Source | None = None,
    *,
    as_before: bool = False,
) -> TrainValidationSplit:
    """Clean and divide a source as a recipe's data section says. Without a choice: `file` where a validation source is
    given, else the source's own division where it has one, else hash, or tail below 100 documents. UsageError where the
    split and the validation source contradict each other. `cleaning` is shared by sources that are divided one by one;
    `held_out` is the validation part of a division by file, where it is not to be opened here."""
    cleaning = cleaning or _cleaning(section, kind)
    cleaned = cleaning.cleaned(source) if cleaning else source
    own: SplitMethod | None = "file" if section.validation is not None else "own" if source.divided else None
    split = section.split or own
    if split is None:
        is_enough = next(islice(cleaned.documents(), _FEWEST_FOR_HASH - 1, None), None) is not None
        split = "hash" if is_enough else "tail"
    if split != "file":
        if section.validation is not None:
            problem = f"data.split is {split}, but data.validation names {section.validation}"
            raise UsageError(problem, "leave one of them out, or set data.split to file")
        return TrainValidationSplit(cleaned, split, section.validation_fraction, cleaning=cleaning)
    if section.validation is None:
        problem = "data.split is file, but data.validation names no source"
        raise UsageError(problem, "name the source of the validation part")
    if section.validation in source.names:
        problem = f"{section.validation} is both data.source and data.validation"
        raise UsageError(problem, "name another validation source")
    if held_out is None:
        held_out = open_source(section.validation, kind, seed=section.seed, as_before=as_before, **section.reading)
        held_out = cleaning.cleaned(held_out) if cleaning else held_out
    return TrainValidationSplit(cleaned, split, section.validation_fraction, held_out, cleaning=cleaning)


def _by_hash(documents: Documents, fraction: Fraction) -> Iterator[tuple[Part, Document]]:
    limit = int(fraction * 256**_HASH_BYTES)
    for document in documents():
        content = hashlib.blake2b(digest_size=_HASH_BYTES)
        for stretch in stretches(document.source if isinstance(document, Pair) else document):
            content.update(stretch.encode())
        yield "validation" if int.from_bytes(content.digest(), "big") < limit else "train", document


def _by_tail(documents: Documents, fraction: Fraction) -> Iterator[tuple[Part, Document]]:
    """Two readings: one counts the characters, one divides. The pair in which the cut falls is validation."""
    cut, start = int(sum(map(_length, documents())) * (1 - fraction)), 0
    for document in documents():
        end = start + _length(document)
        if end <= cut:
            yield "train", document
        elif start < cut and not isinstance(document, Pair):
            yield "train", document[: cut - start]
            yield "validation", document[cut - start :]
        else:
            yield "validation", document
        start = end


def _length(document: Document) -> int:
    return sum(map(len, texts(document)))
