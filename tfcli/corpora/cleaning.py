"""Cleaning a corpus: Unicode normalization, filters by length and ratio, deduplication exact and near. A document is
normalized first; then the first reason to remove it counts, and of several sources the first copy stays. Near copies
are found by MinHash (Broder 1997) and locality-sensitive hashing (Leskovec, Rajaraman and Ullman 2020, section 3.4)."""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64

from tfcli.corpora import Document, LongText, Pair, Part, Source, Text, pieces, stretches, texts
from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import digest
from tfcli.recipe.data import CLEANING_KEYS, DataSection

T = TypeVar("T")
_REASONS = (None, "short", "long", "ratio", "identical", "no_letters", "exact", "near")  # a verdict is a place here
_VERSION = 1


def document_key(document: Document) -> int:
    """A hash of 64 bits of a document's content; of a pair, of both sides in their order."""
    sides = []
    for text in texts(document):
        content = xxh3_64()
        for stretch in stretches(text):
            content.update(stretch.encode())
        sides.append(content)
    return sides[0].intdigest() if len(sides) == 1 else xxh3_64(b"".join(one.digest() for one in sides)).intdigest()


class KeyTable:
    """Hashes of 64 bits with the number each came with first: linear probing, 12 bytes a place, 1/2 to 3/4 taken."""

    def __init__(self, places: int = 1 << 10) -> None:
        self._keys, self._numbers = array("Q", bytes(8 * places)), array("I", bytes(4 * places))
        self._room = 3 * places // 4

    def add(self, key: int, number: int = 0) -> int | None:
        """The number with which a key has come before; None: it is new."""
        key = key or 1  # 0 is a free place
        keys, mask = self._keys, len(self._keys) - 1
        place = key & mask
        while keys[place] not in (0, key):
            place = (place + 1) & mask
        if keys[place]:
            return self._numbers[place]
        keys[place], self._numbers[place] = key, number
        self._room -= 1
        if not self._room:
            larger = KeyTable(2 * len(keys))
            for one, its_number in compress(zip(keys, self._numbers, strict=True), keys):
                larger.add(one, its_number)
            vars(self).update(vars(larger))
        return None


_PERMUTATIONS, _ROWS = 128, 8
_NEAR = 0.8  # documents are near-duplicates whose shingles have at least this Jaccard similarity
_SHINGLE = 8  # characters
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
_SPACES = re.compile(r"\W+")


class NearIndex:
    """Documents that are like one that came before: signatures of 128 minima, in 16 bands of 8 that are looked up, and
    compared by 8 bits of each minimum (Li and König 2010). Some 500 bytes a document."""

    def __init__(self) -> None:
        try:
            from datasketch import MinHash
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "datasketch":
                raise
            problem = "Near-duplicates are found with datasketch, which is not installed"
            raise UsageError(problem, "pip install 'tfcli[dedup]', or remove exact copies alone") from None
        self._minhash = MinHash(_PERMUTATIONS, seed=1, hashfunc=int, scheme="affine32")
        self._bands = KeyTable()
        self._signatures = bytearray()
        powers = [pow(_MULTIPLIER, power, 1 << 64) for power in range(1, max(_ROWS, _SHINGLE) + 1)]
        self._powers = np.array(powers, np.uint64)

    def add(self, document: Document) -> bool:
        """Whether one that came before is like it; if none is, it is remembered."""
        minima = self.signature(document)
        rows = minima.reshape(-1, _ROWS).astype(np.uint64) + np.uint64(1)
        keys = (rows * self._powers[:_ROWS]).sum(axis=1) + np.arange(len(rows), dtype=np.uint64) * self._powers[1]
        keys ^= keys >> np.uint64(29)
        own, number = minima.astype(np.uint8), len(self._signatures) // _PERMUTATIONS
        for other in {self._bands.add(key, number) for key in keys.tolist()} - {None, number}:
            assert other is not None
            begin = other * _PERMUTATIONS
            signature = np.frombuffer(bytes(self._signatures[begin : begin + _PERMUTATIONS]), np.uint8)
            # Of minima that differ, one in 256 has the same 8 bits.
            if ((own == signature).mean() - 1 / 256) / (1 - 1 / 256) >= _NEAR:
                return True
        self._signatures += own.tobytes()
        return False

    def signature(self, document: Document) -> NDArray[np.uint32]:
        """The least hash of its shingles under each of the 128 permutations."""
        self._minhash.clear()
        for text in texts(document):
            for piece in pieces(text):
                self._minhash.update_batch(self._shingles(piece).tolist())
        return np.asarray(self._minhash.hashvalues)

    def _shingles(self, text: str) -> NDArray[np.uint64]:
        """Hashes of 32 bits of all stretches of 8 characters; case does not count, nor what stands between words."""
        plain = _SPACES.sub(" ", text.casefold()).ljust(_SHINGLE)
        letters = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
        count = len(letters) - _SHINGLE + 1
        hashes = np.zeros(count, np.uint64)
        for place in range(_SHINGLE):
            hashes += letters[place : place + count] * self._powers[place]
        return np.unique((hashes ^ (hashes >> np.uint64(31))) * self._powers[0] >> np.uint64(32))


_SAFE = re.compile(r"[\0-\x7f\u0400-\u0481\u048a-\u052f\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3]")
"""Characters with which nothing before them is composed."""


def normalized(text: Text, form: Literal["nfc", "nfkc"]) -> Text:
    """The text in a Unicode normalization form; of a long one, each stretch up to where nothing is composed."""
    to: Any = form.upper()
    if isinstance(text, str):
        return unicodedata.normalize(to, text)

    def read(long: LongText = text) -> Iterator[str]:
        left = ""
        for stretch in long:
            left += stretch
            cut = next((place for place in range(len(left) - 1, 0, -1) if _SAFE.match(left, place)), 0)
            yield unicodedata.normalize(to, left[:cut])
            left = left[cut:]
        yield unicodedata.normalize(to, left)

    return LongText(read)


class Cleaning:
    """What is removed of several sources, which are read once for it, in their order. It is decided in whole before
    the first document is given out; of each a byte is kept, so that reading again costs nothing."""

    def __init__(self, section: DataSection) -> None:
        self._section = section
        self._sources: list[Source] = []
        self._verdicts: list[NDArray[np.uint8]] = []
        self._exact = None if section.deduplicate is None else KeyTable()
        self._near = NearIndex() if section.deduplicate == "near" else None
        self.compares = self._exact is not None

    def cleaned(self, source: Source) -> Source:
        """The source without what is removed, and normalized; the next one in order."""
        number, divided = len(self._sources), source.divided
        self._sources.append(source)
        rules = {key: getattr(self._section, key) or None for key in CLEANING_KEYS}
        return replace(
            source,
            documents=lambda: self._kept(number, source.documents(), self._normalized),
            divided=divided and (lambda: self._kept(number, divided(), lambda one: (one[0], self._normalized(one[1])))),
            fingerprint=lambda: digest("cleaned", _VERSION, source.fingerprint(), rules),
        )

    @property
    def removed(self) -> dict[str, int]:
        """How many documents are removed for each reason; reasons that never hold are left out."""
        counts = np.sum([np.bincount(one, minlength=len(_REASONS)) for one in self._decide()], axis=0).tolist()
        return {name: count for name, count in zip(_REASONS, counts, strict=True) if name and count}

    def _decide(self) -> list[NDArray[np.uint8]]:
        """The verdict on each document of each source."""
        for source in self._sources[len(self._verdicts) :]:
            reasons = map(self._reason, map(self._normalized, source.documents()))
            self._verdicts.append(np.fromiter(map(_REASONS.index, reasons), np.uint8))
        return self._verdicts

    def decided(self) -> dict[str, NDArray[Any]]:
        """The verdicts, for another process."""
        return {f"source{number}": one for number, one in enumerate(self._decide())}

    def remember(self, decided: Mapping[str, NDArray[Any]]) -> None:
        """Take what another process has decided about the same sources."""
        self._verdicts = [decided[f"source{number}"] for number in range(len(self._sources))]

    def _kept(self, number: int, documents: Iterator[T], finish: Callable[[T], T]) -> Iterator[T]:
        verdicts = self._decide()[number]
        for place, document in enumerate(documents):
            if place >= len(verdicts):
                names = ", ".join(self._sources[number].names)
                raise BrokenInputError(f"{names} has changed while it was read", "give the command again")
            if not verdicts[place]:
                yield finish(document)

    def _normalized(self, document: Document) -> Document:
        form = self._section.normalize
        if form is None:
            return document
        if isinstance(document, Pair):
            return Pair(*(unicodedata.normalize(form.upper(), side) for side in vars(document).values()))  # type: ignore[arg-type]
        return normalized(document, form)

    def _reason(self, document: Document) -> str | None:
        section = self._section
        least, most = section.min_characters, section.max_characters
        if least is not None or most is not None or section.max_length_ratio is not None:
            sizes = sorted(sum(map(len, stretches(text))) for text in texts(document))
            if least is not None and sizes[0] < least:
                return "short"
            if most is not None and sizes[-1] > most:
                return "long"
            if section.max_length_ratio is not None and sizes[-1] > section.max_length_ratio * sizes[0]:
                return "ratio"
        if section.filter_pairs and isinstance(document, Pair):
            if document.source.strip() == document.target.strip():
                return "identical"
            if not all(any(map(str.isalpha, side)) for side in texts(document)):
                return "no_letters"
        if self._exact is not None and self._exact.add(document_key(document)) is not None:
            return "exact"
        return "near" if self._near is not None and self._near.add(document) else None


@dataclass
class Copies:
    """Exact copies between the parts of a corpus, of which one part loses its own (`data.drop_duplicates`)."""

    part: Part  # the part that loses them
    divisions: list[Callable[[], Iterator[tuple[Part, Document]]]]

    def kept(self, documents: Iterator[tuple[Part, Document]]) -> Iterator[tuple[Part, Document]]:
        """The documents without those that stand in the other part, too."""
        keys, _ = self._found
        for part, document in documents:
            if not keys or part != self.part or document_key(document) not in keys:
                yield part, document

    @cached_property
    def _found(self) -> tuple[frozenset[int], int]:
        """Keys of the documents in both parts, and how many the part loses: of one reading, 16 bytes kept of each."""
        found = {"train": array("Q"), "validation": array("Q")}
        for part, document in chain.from_iterable(divided() for divided in self.divisions):
            found[part].append(document_key(document))
        here, both = np.frombuffer(found[self.part], np.uint64), np.intersect1d(found["train"], found["validation"])
        return frozenset(both.tolist()), int(np.isin(here, both).sum())

    @property
    def removed(self) -> int:
        """How many documents the part loses."""
        return self._found[1]

    def decided(self) -> dict[str, NDArray[Any]]:
        """What was found, for another process."""
        keys, removed = self._found
        return {"keys": np.array(sorted(keys), np.uint64), "removed": np.array(removed)}

    def remember(self, decided: Mapping[str, NDArray[Any]]) -> None:
        """Take what another process has found in the same corpus."""
        self._found = frozenset(decided["keys"].tolist()), int(decided["removed"])
