"""Learning a vocabulary by byte-pair encoding (BPE), WordPiece, unigram, words or characters, the same every time.

The backend a learner is given cuts text into words. The library leaves marks on it while training, so only
the model is kept.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from tfcli.errors import UsageError
from tfcli.recipe.tokenizer import Algorithm, TokenizerSection
from tfcli.tokenization.pipelines import CONTINUATION, SPACE, UNK, special_tokens

Texts = Callable[[], Iterator[str]]
Learner = Callable[[Backend, Texts, TokenizerSection], models.Model]

_EVERYTHING = 1 << 31
_LONGEST_WORD = 100
_SCORE_DIGITS = 4


def learn_bpe(backend: Backend, text: Texts, section: TokenizerSection) -> models.Model:
    """Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019).

    Every byte is in the vocabulary from the start, so that no text is out of reach.
    """
    specials = special_tokens(section)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _require_size(section, {"bytes": len(alphabet), "special tokens": len(specials)})
    trainer = trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, **_common(section))
    backend.train_from_iterator(text(), trainer)
    return backend.model


def learn_wordpiece(backend: Backend, text: Texts, section: TokenizerSection) -> models.Model:
    """WordPiece (Schuster and Nakajima 2012): greedy longest match, ``##`` continues a word.

    The library's trainer numbers the continued characters in the order of a random hash, and ties between
    merges follow these numbers; naming them beforehand in sorted order takes the chance out of it.
    A word of more than 100 characters is unknown.
    """
    specials = special_tokens(section)
    words = _distinct_words(backend, text)
    alphabet = set().union(*words)
    continued = [CONTINUATION + character for character in sorted(set().union(*(word[1:] for word in words)))]
    needed = {"characters": len(alphabet), "of them within words": len(continued), "special tokens": len(specials)}
    _require_size(section, needed)
    trainer = trainers.WordPieceTrainer(
        special_tokens=specials + continued, continuing_subword_prefix=CONTINUATION, **_common(section)
    )
    backend.train_from_iterator(text(), trainer)
    return models.WordPiece(
        backend.get_vocab(),
        unk_token=UNK,
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=_LONGEST_WORD,
    )


def learn_unigram(backend: Backend, text: Texts, section: TokenizerSection) -> models.Model:
    """A unigram language model over pieces (Kudo 2018): the likeliest segmentation wins.

    `min_frequency` plays no part: a piece stays when the likelihood of the text needs it. The library
    considers only pieces that two different words share, so a text of few words gives few pieces.
    """
    specials = special_tokens(section)
    alphabet = set().union(*_distinct_words(backend, text)) | {SPACE}
    _require_size(section, {"characters": len(alphabet), "special tokens": len(specials)})
    trainer = trainers.UnigramTrainer(
        vocab_size=section.vocab_size,
        special_tokens=specials,
        initial_alphabet=[SPACE],
        unk_token=UNK,
        show_progress=False,
    )
    backend.train_from_iterator(text(), trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"][len(specials) :]
    vocabulary = [(token, 0.0) for token in specials] + canonical_scores(learned)
    return models.Unigram(vocabulary, unk_id=specials.index(UNK), byte_fallback=False)


def learn_word(backend: Backend, text: Texts, section: TokenizerSection) -> models.Model:
    """The most frequent words and punctuation marks."""
    specials = special_tokens(section)
    trainer = trainers.WordLevelTrainer(special_tokens=specials, **_common(section))
    backend.train_from_iterator(text(), trainer)
    if backend.get_vocab_size() == len(specials):
        raise UsageError(
            f"No word of the text occurs {section.min_frequency} times",
            "lower tokenizer.min_frequency or add text",
        )
    return backend.model


def learn_char(backend: Backend, text: Texts, section: TokenizerSection) -> models.Model:
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


LEARNERS: dict[Algorithm, Learner] = {
    "bpe": learn_bpe,
    "wordpiece": learn_wordpiece,
    "unigram": learn_unigram,
    "word": learn_word,
    "char": learn_char,
}


def canonical_scores(learned: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces by falling score, then by spelling, without what depends on the order in which words were read.

    The library sums in the order of a random hash, so the last digits differ: they are rounded away.
    Characters that lost their place in training get the lowest score plus a small step each, in random order:
    here they all get the lowest.
    """
    rounded = [(token, round(score, _SCORE_DIGITS)) for token, score in learned]
    lowest = min(score for _, score in rounded)
    characters = sum(len(token) == 1 for token, _ in rounded)
    stepped = lowest + (characters + 1) * 10**-_SCORE_DIGITS
    scores = [(token, lowest if len(token) == 1 and score < stepped else score) for token, score in rounded]
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))


def _distinct_words(backend: Backend, text: Texts) -> list[str]:
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
    needed = sum(parts.values())
    if section.vocab_size < needed:
        spelled = ", ".join(f"{count} {what}" for what, count in parts.items())
        raise UsageError(
            f"tokenizer.vocab_size = {section.vocab_size} is too small for {section.algorithm} ({spelled})",
            f"set it to {needed} or more",
        )
