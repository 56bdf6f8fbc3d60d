"""A corpus report: read once, document by document, in bounded memory (8 bytes a document, and its hash)."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from tfcli.corpora import Document, Kind, batched
from tfcli.corpora.cleaning import KeyTable, NearIndex, document_key
from tfcli.corpora.open import open_source
from tfcli.inspection.corpus import CorpusReport, LengthBin, Lengths, Ngram, SourceShare
from tfcli.recipe.data import DataSection
from tfcli.records.dataset import NONE_SKIPPED
from tfcli.tokenization.train import TextCounts

if TYPE_CHECKING:
    from tfcli.tokenization.tokenizer import Tokenizer

_MOST_FREQUENT = 12
_HELD = 1 << 19  # N-grams that are counted at a time
_REPORT_EVERY = 1024  # documents
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:['’][^\W{_UNSPACED}]+)*")  # letters and digits, or one unspaced
_ALIKE, _BINS = 8, 14
_STEPS = [digit * 10**power for power in range(18) for digit in (1, 2, 5)]


def corpus_report(
    names: Sequence[str],
    kind: Kind,
    section: DataSection,
    tokenizer: "Tokenizer | None" = None,
    *,
    ngram: int = 3,
    near: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> CorpusReport:
    """Read sources, as the section says, and count; errors as `open_source`. To look for `near`-duplicates takes 500
    bytes of memory a document; a UsageError without the extra."""
    text, twice, lengths, keys = TextCounts(), Counter[str](), array("Q"), KeyTable()
    ngrams, index = NGramCounter(ngram), NearIndex() if near else None

    def read(name: str, documents: Iterable[Document]) -> Iterator[tuple[int, str]]:
        """Each piece, with the place of its document."""
        for number, document in enumerate(documents, start=1):
            before = text.bytes
            lengths.append(0)
            for piece in text.pieces(document):
                ngrams.add(piece)
                yield len(lengths) - 1, piece
            if keys.add(document_key(document)) is not None:
                twice.update(exact=1, exact_bytes=text.bytes - before)
            elif index is not None:
                twice["near"] += index.add(document)
            if number % _REPORT_EVERY == 0:
                tell(f"{number:,} documents of {name}")

    sources, skipped = [], NONE_SKIPPED
    for name in names:
        before = vars(text).copy()
        source = open_source(name, kind, max_documents=section.max_documents, seed=section.seed, **section.reading)
        for batch in batched(read(name, source.documents()), itemgetter(1)):
            pieces = [piece for _, piece in batch]
            found = pieces if tokenizer is None else tokenizer.encode_batch(pieces)
            for (place, _), one in zip(batch, found, strict=True):
                lengths[place] += len(one)
        own = {what: count - before[what] for what, count in vars(text).items()}
        tokens = None if tokenizer is None else sum(lengths[before["documents"] :])
        sources.append(SourceShare(name, own["documents"], own["characters"], own["bytes"], tokens, share=0.0))
        skipped = skipped.joined(source.skipped())
    tokens = None if tokenizer is None else sum(lengths)
    whole = (text.bytes if tokens is None else tokens) or 1
    return CorpusReport(
        kind=kind,
        **vars(text),
        tokens=tokens,
        exact=twice["exact"],
        exact_bytes=twice["exact_bytes"],
        near=None if index is None else twice["near"],
        lengths=lengths_of(lengths, is_tokens=tokenizer is not None),
        ngram_size=ngrams.size,
        ngram_error=ngrams.error,
        ngrams=ngrams.most_common(_MOST_FREQUENT),
        sources=tuple(replace(one, share=(one.bytes if one.tokens is None else one.tokens) / whole) for one in sources),
        skipped=skipped,
    )


class NGramCounter:
    """N-grams in bounded memory (lossy counting; Manku and Motwani 2002): of too many, the rarest are forgotten."""

    def __init__(self, size: int, held: int = _HELD) -> None:
        self.size, self.error, self._most = size, 0, held
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, text: str) -> None:
        """Count those of a text."""
        words = _WORD.findall(text)
        self._counts.update(zip(*(words[place:] for place in range(self.size)), strict=False))
        if len(self._counts) > self._most:
            ranked = np.fromiter(self._counts.values(), np.int64)
            least = int(np.partition(ranked, len(ranked) // 2)[len(ranked) // 2])
            self._counts = Counter({one: count for one, count in self._counts.items() if count > least})
            self.error += least

    def most_common(self, number: int) -> tuple[Ngram, ...]:
        """Those that occur twice or more, the most frequent first; of equals, in the order of their words."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:number]
        return tuple(Ngram(" ".join(words), count) for words, count in ranked if count + self.error > 1)


def lengths_of(lengths: "array[int]", *, is_tokens: bool) -> Lengths:
    """Quantiles of lengths, and their histogram: bins of one width where lengths are alike, else bins that double. The
    first one has what is shorter, too, the last one what is longer.

    >>> found = lengths_of(array("Q", [1, 2, 3, 9, 40]), is_tokens=True)
    >>> [(one.low, one.high, one.documents) for one in found.histogram]
    [(1, 1, 1), (2, 3, 2), (4, 7, 0), (8, 15, 1), (16, 31, 0), (32, 40, 1)]
    """
    values = np.frombuffer(lengths, np.uint64).astype(np.int64)
    ranked = np.percentile(values, [1, 0, 10, 50, 90, 100, 99], method="inverted_cdf").tolist()
    low, shortest, p10, median, p90, longest, high = ranked
    if high > _ALIKE * max(low, 1):
        edges = [1 << power for power in range(max(low, 1).bit_length() - 1, high.bit_length())]
    else:
        step = next(step for step in _STEPS if step * _BINS >= high - low)
        edges = list(range(low // step * step, high + 1, step))
    counts = np.bincount(np.searchsorted(edges[1:], values, side="right"), minlength=len(edges)).tolist()
    begins, ends = [shortest, *edges[1:]], [*(edge - 1 for edge in edges[1:]), longest]
    histogram = tuple(map(LengthBin, begins, ends, counts))
    return Lengths("tokens" if is_tokens else "characters", *(shortest, p10, median, p90, longest), histogram)
