"""Training a tokenizer on text. The same text gives the same tokenizer.json, byte for byte.

The library holds every different word, letter by letter. Text with spaces soon has no new ones. Text without (Chinese,
Japanese, encoded data) has nothing else, and so of its stretches no more are learned from than memory bears, drawn from
all of the text.
"""

import re
import zlib
from collections.abc import Callable, Iterator

from tfcli import machine
from tfcli.corpora.source import Text, is_blank
from tfcli.errors import UsageError
from tfcli.recipe.tokenizer import TokenizerSection
from tfcli.records.tokenization import TokenizerReport
from tfcli.tokenization import learn
from tfcli.tokenization.pieces import TextCounts, pieces
from tfcli.tokenization.pipelines import REPLACEMENT, pipeline
from tfcli.tokenization.tokenizer import Tokenizer

Texts = Callable[[], Iterator[Text]]

REMEMBERED = 1 << 24
"""Characters that are kept in memory rather than read or made again."""

_WORD = 16
"""Characters without white space that may still be a word; more of them are a stretch."""

_STRETCH = re.compile(rf"\S{{{_WORD + 1},64}}")

STRETCHES = {"bpe": 1 << 21, "wordpiece": 1 << 21, "unigram": 1 << 18}
"""Bytes of different stretches that an algorithm learns from at most; `char` and `word` have few or count all."""

HELD = {"bpe": 115, "wordpiece": 130, "unigram": 400, "word": 30}
"""Bytes of memory that a byte of different words takes (measured with tokenizers 0.23)."""


def train_tokenizer(texts: Texts, section: TokenizerSection) -> tuple[Tokenizer, TokenizerReport]:
    """Learn a tokenizer and count what it makes of its own training text.

    Args:
        texts: opens the documents anew. Few are read once and kept; many are opened three times, for wordpiece and
            unigram four times: to see how many words there are, to learn, and to count.
        section: the algorithm, the vocabulary's size and what is too rare to learn.

    Raises:
        UsageError: there is no text, its words take more memory than is free, or the vocabulary is too small for the
            alphabet.
    """
    texts = _remembered(texts)
    share = _share_of_stretches(texts, section)
    learner = learn.LEARNERS[section.algorithm]
    cutter = pipeline(section)
    model = learner(cutter, lambda: _training_pieces(texts(), section, share), section)
    tokenizer = Tokenizer(pipeline(section, model))
    return tokenizer, _report(tokenizer, texts, share)


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


def _report(tokenizer: Tokenizer, texts: Texts, share: float) -> TokenizerReport:
    """Apply a tokenizer to documents and count."""
    text, tokens, unknown = TextCounts(), 0, 0
    for batch in text.batches(texts()):
        for ids in tokenizer.encode_batch([piece for _, piece in batch]):
            tokens += len(ids)
            unknown += tokenizer.count_unknown(ids)
    return TokenizerReport(
        tokenizer.algorithm,
        tokenizer.vocab_size,
        tokenizer.fingerprint,
        documents=text.documents,
        characters=text.characters,
        bytes=text.bytes,
        tokens=tokens,
        unknown=unknown,
        stretches_learned=share,
    )


def _share_of_stretches(texts: Texts, section: TokenizerSection) -> float:
    """The share of the stretches that can be learned from: 1 where all can."""
    most, held, free = STRETCHES.get(section.algorithm, 0), HELD.get(section.algorithm, 0), machine.free_memory()
    seen: set[str] = set()
    words = stretches = 0
    blank = True
    for text in texts():
        blank = blank and is_blank(text)
        if not blank and not held:
            break
        for piece in pieces(text):
            new = set(piece.split()) - seen
            long = {word for word in new if most and len(word) > _WORD}
            stretches += len("".join(long).encode())
            words += len("".join(new - long).encode())
            seen |= new if stretches <= most else new - long
            needed = held * (words + min(stretches, most))
            if needed > free:
                raise UsageError(
                    f"Learning a {section.algorithm} tokenizer from this text takes {needed / 1e9:.3g} GB or more, for "
                    f"it has {words / 1e6:.3g} MB of different words, and {free / 1e9:.3g} GB of memory are free",
                    "learn from a part of the text, or choose --algorithm char, which takes none",
                )
    if blank:
        raise UsageError("There is no text to train a tokenizer on", "name a source that holds text")
    return min(1.0, most / max(1, stretches))


def _training_pieces(documents: Iterator[Text], section: TokenizerSection, share: float) -> Iterator[str]:
    for document in documents:
        for piece in pieces(document):
            # U+FFFD stands for the unknown and must stay out of every vocabulary that has one.
            text = piece if section.algorithm == "bpe" else piece.replace(REPLACEMENT, " ")
            yield from [text] if share >= 1 or section.algorithm not in STRETCHES else _thinned(text, share)


def _thinned(text: str, share: float) -> Iterator[str]:
    """What is left between the stretches that are left out. A stretch is in by what it says, wherever it stands."""
    start = 0
    for stretch in _STRETCH.finditer(text):
        if zlib.crc32(stretch[0].encode()) >= share * (1 << 32):
            yield text[start : stretch.start()]
            start = stretch.end()
    yield text[start:]
