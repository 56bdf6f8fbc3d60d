"""Training a tokenizer on text. The same text gives the same tokenizer.json, byte for byte. The library holds every
different word, letter by letter. Text with spaces soon has no new ones. Text without (Chinese, Japanese, encoded data)
has nothing else, and so of its stretches no more are learned from than memory bears, drawn from all of the text. Of a
text beyond `tokenizer.sample_bytes`, a sample of pieces is learned from. The backend a learner is given cuts text into
words. The library leaves marks on it while training, so only the model is kept."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from operator import itemgetter
from typing import Any
from unicodedata import category
from zlib import crc32

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from tfcli import machine
from tfcli.corpora import PIECE_CHARACTERS, Document, Text, batched, pieces, texts
from tfcli.errors import UsageError
from tfcli.recipe.data import Algorithm, TokenizerSection
from tfcli.records import dataset, roles, runs
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.tokenizer_json import CONTINUATION, REPLACEMENT, SPACE, pipeline, special_tokens

Pieces = Callable[[], Iterator[str]]
Characters = AbstractSet[str]  # what the alphabet must have beside the characters that are learned from
Texts = Callable[[], Iterator[Text]]

_EVERYTHING, _LONGEST_WORD, _SCORE_DIGITS, _BITS = 1 << 31, 100, 4, 20
_COVERAGE = 0.9995  # of a text, by SentencePiece: its characters have pieces, where the others are spelled in bytes


def learn_bpe(backend: Backend, text: Pieces, section: TokenizerSection, more: Characters) -> models.Model:
    """Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019): it spells every text."""
    specials = special_tokens(section)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _require_size(section, {"bytes": len(alphabet), "special tokens": len(specials)})
    trainer = trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, **_common(section))
    backend.train_from_iterator(text(), trainer)
    return backend.model


def learn_wordpiece(backend: Backend, text: Pieces, section: TokenizerSection, more: Characters) -> models.Model:
    """WordPiece (Schuster and Nakajima 2012): greedy longest match, ``##`` continues a word. A word of more than 100
    characters is unknown."""
    specials = special_tokens(section)
    words = _distinct_words(backend, text)
    more = {one for one in more if one == "\n" or not one.isspace()} - (alphabet := set().union(*words))
    inside = {one for one in more if category(one)[0] in "LMN" or one == "_"}.union(*(word[1:] for word in words))
    # The library's trainer numbers them in the order of a random hash, and ties between merges follow these numbers:
    # naming them beforehand in sorted order takes the chance out of it.
    continued = [CONTINUATION + character for character in sorted(inside)]
    needed = {"characters": len(alphabet | more), "of them within words": len(continued)}
    _require_size(section, {**needed, "special tokens": len(specials)})
    mark: dict[str, Any] = {"continuing_subword_prefix": CONTINUATION}
    settings = {"special_tokens": specials + continued, "initial_alphabet": sorted(more), **_common(section)}
    backend.train_from_iterator(text(), trainers.WordPieceTrainer(**settings, **mark))
    settings = {"unk_token": section.unk, "max_input_chars_per_word": _LONGEST_WORD, **mark}
    return models.WordPiece(backend.get_vocab(), **settings)


def learn_unigram(backend: Backend, text: Pieces, section: TokenizerSection, more: Characters) -> models.Model:
    """A unigram language model over pieces (Kudo 2018): the likeliest segmentation wins. `min_frequency` plays no part.
    With byte fallback, what has no piece is spelled in bytes.
    The library considers only pieces that two different words share, so a text of few words gives few pieces."""
    specials, space = special_tokens(section), " " if section.byte_fallback else SPACE
    spelled = [f"<0x{byte:02X}>" for byte in range(256)] if section.byte_fallback else []
    alphabet = set().union(*_distinct_words(backend, text)) | {space} | {one.replace(" ", space) for one in more}
    parts = {"characters": len(alphabet - {REPLACEMENT}), "special tokens": len(specials), "bytes": len(spelled)}
    _require_size(section, {name: count for name, count in parts.items() if count})
    settings: dict[str, Any] = {"special_tokens": specials, "unk_token": section.unk, "show_progress": False}
    # With byte fallback, what is left to the bytes stands as U+FFFD, a word and a piece of its own.
    room = section.vocab_size - len(spelled) + (REPLACEMENT in alphabet)
    trainer = trainers.UnigramTrainer(vocab_size=room, initial_alphabet=[space, *sorted(alphabet & more)], **settings)
    backend.train_from_iterator(text(), trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"][len(specials) :]
    learned = [(token, score) for token, score in learned if token != REPLACEMENT]
    vocabulary = [(token, 0.0) for token in specials + spelled] + canonical_scores(learned)
    return models.Unigram(vocabulary, unk_id=specials.index(section.unk), byte_fallback=section.byte_fallback)


def learn_word(backend: Backend, text: Pieces, section: TokenizerSection, more: Characters) -> models.Model:
    """The most frequent words and punctuation marks."""
    specials = special_tokens(section)
    backend.train_from_iterator(text(), trainers.WordLevelTrainer(special_tokens=specials, **_common(section)))
    if backend.get_vocab_size() == len(specials):
        problem = f"No word of the text occurs {section.min_frequency} times"
        raise UsageError(problem, "lower tokenizer.min_frequency or add text")
    return backend.model


def learn_char(backend: Backend, text: Pieces, section: TokenizerSection, more: Characters) -> models.Model:
    """The most frequent characters, white space included; ties by code point. Ids follow the code points."""
    specials = special_tokens(section)
    kept = sorted(ranked_characters(backend, text)[: section.vocab_size - len(specials)])
    vocabulary = {token: token_id for token_id, token in enumerate(specials + kept)}
    return models.BPE(vocab=vocabulary, merges=[], unk_token=section.unk)


def ranked_characters(backend: Backend, text: Pieces) -> list[str]:
    """Those that the backend's normalizer makes of the text, the most frequent first; ties by code point."""
    counts: Counter[str] = Counter()
    for piece in text():
        counts.update(piece if backend.normalizer is None else backend.normalizer.normalize_str(piece))
    return sorted(counts, key=lambda character: (-counts[character], character))


LEARNERS: dict[Algorithm, Callable[[Backend, Pieces, TokenizerSection, Characters], models.Model]] = {
    "bpe": learn_bpe,
    "wordpiece": learn_wordpiece,
    "unigram": learn_unigram,
    "word": learn_word,
    "char": learn_char,
}


def canonical_scores(learned: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces by falling score, then by spelling, without what depends on the order in which words were read: the last
    digits, and the small steps above the lowest score by which characters that lost their place are told apart."""
    rounded = [(token, round(score, _SCORE_DIGITS)) for token, score in learned]
    lowest = min(score for _, score in rounded)
    stepped = lowest + (sum(len(token) == 1 for token, _ in rounded) + 1) * 10**-_SCORE_DIGITS
    scores = [(token, lowest if len(token) == 1 and score < stepped else score) for token, score in rounded]
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))


def _distinct_words(backend: Backend, text: Pieces) -> list[str]:
    """Every word as the backend's own normalizer and pre-tokenizer cut it."""
    counter = with_words_of(backend, models.WordLevel({}, unk_token=roles.UNK))
    trainer = trainers.WordLevelTrainer(vocab_size=_EVERYTHING, min_frequency=0, show_progress=False)
    counter.train_from_iterator(text(), trainer)
    return list(counter.get_vocab())


def with_words_of(backend: Backend, model: models.Model) -> Backend:
    """A model that sees the words that a backend's normalizer and pre-tokenizer make."""
    made = Backend(model)
    made.normalizer, made.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    return made


def _common(section: TokenizerSection) -> dict[str, Any]:
    return {"vocab_size": section.vocab_size, "min_frequency": section.min_frequency, "show_progress": False}


def _require_size(section: TokenizerSection, parts: dict[str, int]) -> None:
    """Refuse a vocabulary that cannot hold its indispensable parts, naming the least that can."""
    if section.vocab_size < (needed := sum(parts.values())):
        spelled = ", ".join(f"{count} {what}" for what, count in parts.items())
        problem = f"tokenizer.vocab_size = {section.vocab_size} is too small for {section.algorithm} ({spelled})"
        raise UsageError(problem, f"set it to {needed} or more")


def reported_texts(documents: Iterable[Document], report: Callable[[Any], None]) -> Iterator[Text]:
    """The texts of documents to learn from; progress is told."""
    for number, document in enumerate(documents, start=1):
        if number % 256 == 0:  # documents
            report(runs.StageProgress("tokenizer", number))
        yield from texts(document)


REMEMBERED = 1 << 24  # characters that are kept in memory rather than read or made again
_WORD = 16  # characters without white space that may still be a word; more of them are a stretch
_STRETCH = re.compile(rf"\S{{{_WORD + 1},64}}")
STRETCHES = {"bpe": 1 << 21, "wordpiece": 1 << 21, "unigram": 1 << 18}  # bytes of different ones, at most
HELD = {"bpe": 115, "wordpiece": 130, "unigram": 400, "word": 30}  # bytes of memory a byte (tokenizers 0.23)


def train_tokenizer(texts: Texts, section: TokenizerSection) -> tuple[Tokenizer, dataset.TokenizerReport]:
    """Learn a tokenizer and count what it makes of its own training text; UsageError where that is none, where free
    memory does not hold its words, or the vocabulary its alphabet. Few texts are read once and kept; many three times,
    to see how many words there are, to learn, and to count; for wordpiece and unigram four, for a sample once more."""
    text = TrainingText(texts, section)
    model = LEARNERS[section.algorithm](pipeline(section), text.pieces, section, text.beyond)
    tokenizer = Tokenizer(pipeline(section, model))
    return tokenizer, report(tokenizer, text)


class TextCounts:
    """A text in numbers, counted while it is read."""

    def __init__(self) -> None:
        self.documents = self.characters = self.bytes = self.words = 0

    def pieces(self, document: Document) -> Iterator[str]:
        """Those of one more document, of a pair of both sides."""
        self.documents += 1
        for piece in chain.from_iterable(map(pieces, texts(document))):
            self.characters += len(piece)
            self.bytes += len(piece.encode())
            self.words += len(piece.split())
            yield piece

    def batches(self, documents: Iterable[Document]) -> Iterator[list[tuple[int, str]]]:
        """Pieces of the documents, each with its document's number from 1 on."""
        numbered = ((self.documents, piece) for document in documents for piece in self.pieces(document))
        return batched(numbered, lambda one: one[1])


class TrainingText:
    """What of a text is learned from: all that fits into `tokenizer.sample_bytes`, else pieces drawn from everywhere by
    their number and content; and of long stretches no more than memory bears. Of all its `bytes`, `learned` ones are
    learned from (None: all), and of their stretches a `share`; `beyond` are the characters of the whole text, as the
    algorithm reads them, for an alphabet that a sample would not fill."""

    def __init__(self, texts: Texts, section: TokenizerSection, normalizer: Any = None) -> None:
        self.texts, self._section = _remembered(texts), section
        self._normalizer = pipeline(section).normalizer if normalizer is None else normalizer
        self._sizes = np.zeros(1 << _BITS, np.int64)  # bytes by the first bits of what a piece is drawn by
        self._characters = np.zeros(sys.maxunicode + 1, np.int64)
        self._left_to_bytes: re.Pattern[str] | None = None
        self.bytes = 0
        self.beyond: Characters = frozenset()
        self.share = _share_of_stretches(self._surveyed(), section)
        self.learned: int | None = None
        if self.bytes > section.sample_bytes and section.algorithm != "char":
            sums = np.cumsum(self._sizes)
            self._whole = int(np.searchsorted(sums, section.sample_bytes, "right"))
            self._room = section.sample_bytes - int(sums[self._whole - 1] if self._whole else 0)
            self.learned = section.sample_bytes
            self.learned = sum(len(piece.encode()) for piece in self._drawn())
            self.share = _share_of_stretches(self._drawn(), section)
        found = np.flatnonzero(self._characters)
        if section.byte_fallback:
            found = found[np.argsort(-self._characters[found], kind="stable")]
            sums = np.cumsum(self._characters[found])
            rare = {REPLACEMENT, SPACE, *map(chr, found[sums - self._characters[found] >= _COVERAGE * sums[-1]])}
            self._left_to_bytes = re.compile(f"[{re.escape(''.join(sorted(rare)))}]")
            found = found[[chr(code) not in rare for code in found]]
        if self.learned is not None or self.share < 1:
            self.beyond = frozenset(map(chr, found)) - {REPLACEMENT}

    def pieces(self) -> Iterator[str]:
        """The text to learn from."""
        for piece in self._drawn():
            # U+FFFD stands for the unknown and must stay out of every vocabulary that has one.
            text = piece if self._section.algorithm == "bpe" or self._left_to_bytes else piece.replace(REPLACEMENT, " ")
            if self._left_to_bytes is not None:
                text = self._left_to_bytes.sub(REPLACEMENT, self._normalized(text))
            yield from [text] if self.share >= 1 else _thinned(text, self.share)

    def _normalized(self, piece: str) -> str:
        return piece if self._normalizer is None else self._normalizer.normalize_str(piece)

    def _surveyed(self) -> Iterator[str]:
        """Every piece, counted; those that a sample would be full with are not handed on."""
        counts = self._section.algorithm in ("wordpiece", "unigram")
        for batch in batched(self._numbered(), itemgetter(1), PIECE_CHARACTERS if counts else 1):
            for number, piece in batch:
                data = piece.encode()
                self.bytes += len(data)
                self._sizes[crc32(data, number) >> 32 - _BITS] += len(data)
                if self.bytes <= self._section.sample_bytes:
                    yield piece
            if counts:
                text = self._normalized("".join(piece for _, piece in batch))
                found = np.bincount(np.frombuffer(text.encode("utf-32-le"), np.uint32))
                self._characters[: len(found)] += found

    def _numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(chain.from_iterable(map(pieces, self.texts())))

    def _drawn(self) -> Iterator[str]:
        if self.learned is None:
            yield from (piece for _, piece in self._numbered())
            return
        room = self._room
        for number, piece in self._numbered():
            data = piece.encode()
            place = crc32(data, number) >> 32 - _BITS
            fits = place == self._whole and len(data) <= room  # of the first that does not fit whole
            room -= len(data) * fits
            if fits or place < self._whole:
                yield piece


def _remembered(texts: Texts) -> Texts:
    """The same documents, kept from their first whole reading on if they are few."""
    kept: list[Text] | None = None

    def opened() -> Iterator[Text]:
        nonlocal kept
        if kept is not None:
            yield from kept
            return
        so_far: list[Text] = []
        room = REMEMBERED
        for text in texts():
            room -= len(text) if isinstance(text, str) else room + 1
            if room >= 0:
                so_far.append(text)
            else:
                so_far.clear()
            yield text
        kept = so_far if room >= 0 else None

    return opened


def report(tokenizer: Tokenizer, read: TrainingText) -> dataset.TokenizerReport:
    """The tokenizer and what it makes of the text, all of it."""
    text, tokens, unknown = TextCounts(), 0, 0
    for batch in text.batches(read.texts()):
        for ids in tokenizer.encode_batch([piece for _, piece in batch]):
            tokens += len(ids)
            unknown += tokenizer.count_unknown(ids)
    return dataset.TokenizerReport(
        *(tokenizer.algorithm, tokenizer.vocab_size, tokenizer.fingerprint),
        *(text.documents, text.characters, text.bytes),
        *(tokens, unknown, read.share),
        learned_bytes=text.bytes if read.learned is None else read.learned,
    )


def _share_of_stretches(text: Iterable[str], section: TokenizerSection) -> float:
    """The share of the stretches that can be learned from: 1 where all can."""
    most, held, free = STRETCHES.get(section.algorithm, 0), HELD.get(section.algorithm, 0), machine.free_memory()
    seen: set[str] = set()
    words = stretches = 0
    blank = True
    for piece in text:
        blank = blank and (not piece or piece.isspace())
        if not blank and not held:
            break
        new = set(piece.split()) - seen
        long = {word for word in new if most and len(word) > _WORD}
        stretches += len("".join(long).encode())
        words += len("".join(new - long).encode())
        seen |= new if stretches <= most else new - long
        needed = held * (words + min(stretches, most))
        if needed > free:
            takes = f"Learning a {section.algorithm} tokenizer from this text takes {needed / 1e9:.3g} GB or more"
            why = f"for it has {words / 1e6:.3g} MB of different words, and {free / 1e9:.3g} GB of memory are free"
            remedy = "learn from a sample of it (--sample-bytes), or choose --algorithm char, which takes none"
            raise UsageError(f"{takes}, {why}", remedy)
    if blank:
        raise UsageError("There is no text to train a tokenizer on", "name a source that holds text")
    return 1.0 if stretches <= most else most / stretches


def _thinned(text: str, share: float) -> Iterator[str]:
    """What is left between the stretches that are left out. A stretch is in by what it says, wherever it stands."""
    start = 0
    for stretch in _STRETCH.finditer(text):
        if crc32(stretch[0].encode()) >= share * (1 << 32):
            yield text[start : stretch.start()]
            start = stretch.end()
    yield text[start:]
