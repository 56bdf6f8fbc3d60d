"""Training a tokenizer on text. The same text gives the same tokenizer.json, byte for byte.

The library holds every different word, letter by letter. Text with spaces soon has no new ones. Text without (Chinese,
Japanese, encoded data) has nothing else, and so of its stretches no more are learned from than memory bears, drawn from
all of the text.

The backend a learner is given cuts text into words. The library leaves marks on it while training, so only
the model is kept.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from tfcli import machine
from tfcli.corpora import Text, is_blank, pieces
from tfcli.errors import UsageError
from tfcli.recipe.recipe import Algorithm, TokenizerSection
from tfcli.records.dataset import TokenizerReport
from tfcli.records.roles import UNK
from tfcli.tokenization.tokenizer import TextCounts, Tokenizer
from tfcli.tokenization.tokenizer_json import CONTINUATION, REPLACEMENT, SPACE, pipeline, special_tokens

Pieces = Callable[[], Iterator[str]]
Texts = Callable[[], Iterator[Text]]

_EVERYTHING = 1 << 31
_LONGEST_WORD = 100
_SCORE_DIGITS = 4


def learn_bpe(backend: Backend, text: Pieces, section: TokenizerSection) -> models.Model:
    """Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019). Every byte is in the
    vocabulary from the start, so that no text is out of reach."""
    specials = special_tokens(section)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _require_size(section, {"bytes": len(alphabet), "special tokens": len(specials)})
    trainer = trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, **_common(section))
    backend.train_from_iterator(text(), trainer)
    return backend.model


def learn_wordpiece(backend: Backend, text: Pieces, section: TokenizerSection) -> models.Model:
    """WordPiece (Schuster and Nakajima 2012): greedy longest match, ``##`` continues a word. A word of more than 100
    characters is unknown."""
    specials = special_tokens(section)
    words = _distinct_words(backend, text)
    alphabet = set().union(*words)
    # The library's trainer numbers them in the order of a random hash, and ties between merges follow these numbers:
    # naming them beforehand in sorted order takes the chance out of it.
    continued = [CONTINUATION + character for character in sorted(set().union(*(word[1:] for word in words)))]
    needed = {"characters": len(alphabet), "of them within words": len(continued), "special tokens": len(specials)}
    _require_size(section, needed)
    trainer = trainers.WordPieceTrainer(
        special_tokens=specials + continued, continuing_subword_prefix=CONTINUATION, **_common(section)
    )
    backend.train_from_iterator(text(), trainer)
    marks = {"unk_token": UNK, "continuing_subword_prefix": CONTINUATION}
    return models.WordPiece(backend.get_vocab(), max_input_chars_per_word=_LONGEST_WORD, **marks)


def learn_unigram(backend: Backend, text: Pieces, section: TokenizerSection) -> models.Model:
    """A unigram language model over pieces (Kudo 2018): the likeliest segmentation wins. `min_frequency` plays no part.
    The library considers only pieces that two different words share, so a text of few words gives few pieces."""
    specials = special_tokens(section)
    alphabet = set().union(*_distinct_words(backend, text)) | {SPACE}
    _require_size(section, {"characters": len(alphabet), "special tokens": len(specials)})
    settings: dict[str, Any] = {"vocab_size": section.vocab_size, "special_tokens": specials, "unk_token": UNK}
    trainer = trainers.UnigramTrainer(**settings, initial_alphabet=[SPACE], show_progress=False)
    backend.train_from_iterator(text(), trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"][len(specials) :]
    vocabulary = [(token, 0.0) for token in specials] + canonical_scores(learned)
    return models.Unigram(vocabulary, unk_id=specials.index(UNK), byte_fallback=False)


def learn_word(backend: Backend, text: Pieces, section: TokenizerSection) -> models.Model:
    """The most frequent words and punctuation marks."""
    specials = special_tokens(section)
    trainer = trainers.WordLevelTrainer(special_tokens=specials, **_common(section))
    backend.train_from_iterator(text(), trainer)
    if backend.get_vocab_size() == len(specials):
        problem = f"No word of the text occurs {section.min_frequency} times"
        raise UsageError(problem, "lower tokenizer.min_frequency or add text")
    return backend.model


def learn_char(backend: Backend, text: Pieces, section: TokenizerSection) -> models.Model:
    """The most frequent characters, white space included; ties by code point. Ids follow the code points."""
    specials = special_tokens(section)
    counts: Counter[str] = Counter()
    normalizer = backend.normalizer
    for piece in text():
        counts.update(piece if normalizer is None else normalizer.normalize_str(piece))
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    kept = sorted(ranked[: section.vocab_size - len(specials)])
    vocabulary = {token: token_id for token_id, token in enumerate(specials + kept)}
    return models.BPE(vocab=vocabulary, merges=[], unk_token=UNK)


LEARNERS: dict[Algorithm, Callable[[Backend, Pieces, TokenizerSection], models.Model]] = {
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
    characters = sum(len(token) == 1 for token, _ in rounded)
    stepped = lowest + (characters + 1) * 10**-_SCORE_DIGITS
    scores = [(token, lowest if len(token) == 1 and score < stepped else score) for token, score in rounded]
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))


def _distinct_words(backend: Backend, text: Pieces) -> list[str]:
    """Every word as the backend's own normalizer and pre-tokenizer cut it."""
    counter = Backend(models.WordLevel({}, unk_token=UNK))
    if backend.normalizer is not None:
        counter.normalizer = backend.normalizer
    counter.pre_tokenizer = backend.pre_tokenizer
    trainer = trainers.WordLevelTrainer(vocab_size=_EVERYTHING, min_frequency=0, show_progress=False)
    counter.train_from_iterator(text(), trainer)
    return list(counter.get_vocab())


def _common(section: TokenizerSection) -> dict[str, Any]:
    return {"vocab_size": section.vocab_size, "min_frequency": section.min_frequency, "show_progress": False}


def _require_size(section: TokenizerSection, parts: dict[str, int]) -> None:
    """Refuse a vocabulary that cannot hold its indispensable parts, naming the least that can."""
    if section.vocab_size < (needed := sum(parts.values())):
        spelled = ", ".join(f"{count} {what}" for what, count in parts.items())
        problem = f"tokenizer.vocab_size = {section.vocab_size} is too small for {section.algorithm} ({spelled})"
        raise UsageError(problem, f"set it to {needed} or more")


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

    Raises:
        UsageError: no text, more words than free memory holds, or a vocabulary too small for the alphabet.
    """
    texts = _remembered(texts)
    share = _share_of_stretches(texts, section)
    learn = LEARNERS[section.algorithm]
    model = learn(pipeline(section), lambda: _training_pieces(texts(), section, share), section)
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
    text, tokens, unknown = TextCounts(), 0, 0
    for batch in text.batches(texts()):
        for ids in tokenizer.encode_batch([piece for _, piece in batch]):
            tokens += len(ids)
            unknown += tokenizer.count_unknown(ids)
    return TokenizerReport(
        *(tokenizer.algorithm, tokenizer.vocab_size, tokenizer.fingerprint),
        *(text.documents, text.characters, text.bytes),
        *(tokens, unknown, share),
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
