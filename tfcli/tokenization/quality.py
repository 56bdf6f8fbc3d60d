"""Tokenizer quality on a text: compression, fertility, unknown tokens, vocabulary use, round trip, and speed."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tfcli.bench import Spread
from tfcli.corpora import Document, pieces, texts
from tfcli.records.dataset import TokenizerComparison, TokenizerQuality
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import TextCounts

Spans = Sequence[tuple[int, int]]
ROUNDS = 5  # timed passes of every tokenizer, after one that does not count
_TIMED_BYTES = 4_000_000  # of a longer text, the beginning is timed
_ALPHA = 2.5  # of Rényi's entropy; Zouhar et al. 2023 found that it foretells the quality of translations best
_WORD = re.compile(r"\w+")
_BYTES_ALONE = re.compile("(⟨[0-9A-F]{2}⟩)+")  # how a label names bytes that are no whole character


def compare_tokenizers(
    tokenizers: Sequence[tuple[str, Tokenizer]],
    source: str,
    documents: Callable[[], Iterable[Document]],
    tell: Callable[[str], None] = lambda _: None,
) -> TokenizerComparison:
    """Apply tokenizers, each with its name, to the same documents of a source and count; then time them in turns.
    `documents` opens them anew: twice, and never all in memory. `tell` is told what is going on."""
    text = TextCounts()
    tallies = [_Tally(tokenizer) for _, tokenizer in tokenizers]
    for batch in text.batches(documents()):
        for tally in tallies:
            tally.add(batch)
        tell(f"{text.documents:,} documents counted")
    timed = list(_beginning(documents(), _TIMED_BYTES))
    seconds = _timed([tokenizer for _, tokenizer in tokenizers], timed, tell)
    timed_bytes = sum(len(piece.encode()) for piece in timed)
    qualities = tuple(
        tally.quality(name, text, Spread(*np.percentile(speeds, [10, 50, 90]).tolist()))
        for (name, _), tally, speeds in zip(tokenizers, tallies, timed_bytes / 1e6 / np.array(seconds), strict=True)
    )
    return TokenizerComparison(source, **vars(text), timed_bytes=timed_bytes, rounds=ROUNDS, tokenizers=qualities)


class _Tally:
    """What one tokenizer has made of the documents so far."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        self.words = self.whole = 0
        self.changed, self.last_changed = 0, 0

    def add(self, batch: Sequence[tuple[int, str]]) -> None:
        encoded = self.tokenizer.encode_spans([piece for _, piece in batch])
        for (number, piece), (ids, spans) in zip(batch, encoded, strict=True):
            self.counts += np.bincount(ids, minlength=len(self.counts))
            words = [found.span() for found in _WORD.finditer(piece)]
            self.words += len(words)
            self.whole += count_whole(words, spans, [token_id == self.tokenizer.roles.unk for token_id in ids])
            if number != self.last_changed and self.tokenizer.decode(ids) != piece:
                self.changed, self.last_changed = self.changed + 1, number

    def quality(self, name: str, text: TextCounts, speed: Spread) -> TokenizerQuality:
        tokenizer, tokens = self.tokenizer, int(self.counts.sum())
        unknown = 0 if tokenizer.roles.unk is None else int(self.counts[tokenizer.roles.unk])
        ordinary = sorted(tokenizer.ordinary_ids)
        used = [token_id for token_id in ordinary if self.counts[token_id]]
        single = [token_id for token_id in used if is_single(*tokenizer.labels([token_id]))]
        return TokenizerQuality(
            name,
            tokenizer.algorithm,
            tokenizer.vocab_size,
            fingerprint=tokenizer.fingerprint,
            tokens=tokens,
            unknown=unknown,
            bytes_per_token=_share(text.bytes, tokens),
            characters_per_token=_share(text.characters, tokens),
            fertility=_share(tokens, text.words),
            whole_words=_share(self.whole, self.words),
            single_characters=_share(int(self.counts[single].sum()), tokens),
            unknown_rate=_share(unknown, tokens),
            vocabulary_use=_share(len(used), len(ordinary)),
            renyi_efficiency=renyi_efficiency(self.counts, len(ordinary)),
            round_trip=1.0 - _share(self.changed, text.documents),
            megabytes_per_second=speed,
        )


def count_whole(words: Spans, tokens: Spans, unknown: Sequence[bool]) -> int:
    """How many words lie within one token that is known; words and tokens go from a character up to another.

    >>> count_whole([(0, 3), (4, 9)], [(0, 3), (4, 6), (6, 9)], [False] * 3)
    1
    """
    if not words or not tokens:
        return 0
    starts, ends = np.maximum.accumulate(np.asarray(tokens), axis=0).T
    begins, stops = np.asarray(words).T
    first = ends.searchsorted(begins, "right")  # the first token that reaches into the word
    one = starts.searchsorted(stops, "left") - first == 1  # up to the first that begins after it
    return int((one & ~np.asarray(unknown)[np.minimum(first, len(tokens) - 1)]).sum())


def is_single(label: str) -> bool:
    """Whether a token stands for one character, or for bytes of one.

    >>> is_single("a"), is_single(" a"), is_single("##s"), is_single("⟨E2⟩⟨82⟩"), is_single("an")
    (True, True, True, True, False)
    """
    text = label.removeprefix("##") or label
    text = text.removeprefix(" ") or text
    return len(text) == 1 or _BYTES_ALONE.fullmatch(text) is not None


def renyi_efficiency(counts: NDArray[np.int64], vocabulary: int) -> float:
    """Ln Σ pᵅ / (1 − α) over ln |V|, with the tokens' shares p and α = 2.5 (Zouhar et al. 2023).

    >>> renyi_efficiency(np.array([5, 5, 0, 0]), 4)
    0.5
    """
    tokens = counts.sum()
    if not tokens or vocabulary < 2:
        return 0.0
    shares = counts[counts > 0] / tokens
    return float(math.log((shares**_ALPHA).sum()) / (1 - _ALPHA) / math.log(vocabulary))


def _beginning(documents: Iterable[Document], most: int) -> Iterator[str]:
    """Pieces of the first documents, until there are so many bytes."""
    for piece in chain.from_iterable(map(pieces, chain.from_iterable(map(texts, documents)))):
        if most <= 0:
            return
        most -= len(piece.encode())
        yield piece


def _timed(tokenizers: Sequence[Tokenizer], texts: list[str], tell: Callable[[str], None]) -> list[list[float]]:
    """Seconds of each tokenizer in every round. They take turns: a machine that is slow for a while is so for all."""
    seconds: list[list[float]] = [[] for _ in tokenizers]
    for number in range(ROUNDS + 1):
        tell(f"timing, round {number} of {ROUNDS}")
        for taken, tokenizer in zip(seconds, tokenizers, strict=True):
            began = time.perf_counter()
            tokenizer.encode_batch(texts)
            taken.append(time.perf_counter() - began)
    return [taken[1:] for taken in seconds]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
