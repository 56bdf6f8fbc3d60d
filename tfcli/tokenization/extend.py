"""Vocabulary extension: the old ids stay, and new pieces are learned behind them. For BPE, merges are continued on text
that the old ones have encoded: each old token becomes a letter, and the library learns merges of these. They rank
behind the old, which are applied first. WordPiece (longest match first), words and characters take the most frequent
pieces that they lack. A unigram model is refused: its scores are one distribution over all pieces, learned together."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from tfcli.errors import UsageError
from tfcli.recipe.data import TokenizerSection
from tfcli.records.dataset import TokenizerReport
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.tokenizer_json import CONTINUATION, SPACE, copy_backend, special_tokens
from tfcli.tokenization.train import LEARNERS, Pieces, Texts, TrainingText, ranked_characters, report, with_words_of

_FIRST = 0xE000  # of the letters that stand for old tokens: behind it, all numbers are characters
_BETWEEN = " "
_SLACK = 64  # merges learned in addition, for those that arrive at a piece that is there


def extend_tokenizer(old: Tokenizer, texts: Texts, section: TokenizerSection) -> tuple[Tokenizer, TokenizerReport]:
    """Learn more pieces, up to `section.vocab_size` ids, and add `section.special_tokens` behind them. The `section` is
    of the old one's algorithm, whose pipeline and roles stay. UsageError for a unigram tokenizer, a size that leaves no
    room, a text without new pieces, or what `train_tokenizer` refuses."""
    if old.algorithm == "unigram":
        problem = "A unigram vocabulary cannot be extended: its scores are one distribution, learned together"
        raise UsageError(problem, "train a new one, or extend a bpe, wordpiece, word or char tokenizer")
    special = [token for token in section.special_tokens if old.token_id(token) is None]
    room = section.vocab_size - old.vocab_size - len(special)
    if room < 0 or not (room or special):
        problem = f"--vocab-size {section.vocab_size} has no room beside the {old.vocab_size} ids that are there"
        raise UsageError(problem, f"set it to {old.vocab_size + len(special) + 1} or more")
    state: dict[str, Any] = json.loads(old.to_json())
    backend = copy_backend(old.to_json())
    text = TrainingText(texts, section, backend.normalizer)
    vocabulary = state["model"]["vocab"]
    vocabulary |= {token["content"]: token["id"] for token in state["added_tokens"]}  # else they move behind the new
    learned: Iterable[str]
    if old.algorithm == "bpe":
        learned = _continued(old, backend, state, text=text.pieces, room=room, section=section) if room else ()
    elif old.algorithm == "char":
        learned = ranked_characters(backend, text.pieces)
    else:
        learned = _more_words(backend, state, text, section)
    new = [token for token in dict.fromkeys(learned) if token not in vocabulary][:room]
    if room and not new:
        raise UsageError("The text has no piece that the vocabulary lacks", "name other text")
    vocabulary |= {token: number for number, token in enumerate(new + special, start=old.vocab_size)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    state["added_tokens"] += [{"id": vocabulary[token], "content": token, **flags} for token in special]
    extended = Tokenizer(copy_backend(json.dumps(state)), "The extended tokenizer", old.roles, old.chat)
    if not extended.extends(old):
        raise UsageError("The vocabulary cannot be extended: its ids are no row without gaps", "train a new one")
    return extended, report(extended, text)


def _continued(
    old: Tokenizer, backend: Backend, state: dict[str, Any], text: Pieces, room: int, section: TokenizerSection
) -> list[str]:
    """New pieces in the order of their merges, which are put behind those of `state`."""
    backend.encode_special_tokens = True
    plain = sorted(old.ordinary_ids - old.fallback_bytes - backend.get_added_tokens_decoder().keys())
    if _FIRST + len(plain) > sys.maxunicode:
        problem = f"The vocabulary has {len(plain)} pieces, and {sys.maxunicode - _FIRST} at most can be extended"
        raise UsageError(problem, "train a new one")
    names = [backend.id_to_token(token_id) or "" for token_id in plain]
    letters = np.full(old.vocab_size, ord(_BETWEEN), np.dtype("<u4"))
    letters[plain] = _FIRST + np.arange(len(plain))
    # Where nothing cuts text into words (Llama 2), a piece with the space before it begins one.
    begins = np.zeros(old.vocab_size, bool)
    begins[plain] = [backend.pre_tokenizer is None and name.startswith(SPACE) for name in names]

    def words() -> Iterator[str]:
        for piece in text():
            encoding = backend.encode(piece, add_special_tokens=False)
            ids = np.array(encoding.ids, np.int64)
            of_word = np.array([-1 if word is None else word for word in encoding.word_ids])
            starts = 1 + np.flatnonzero((np.diff(of_word) != 0) | begins[ids[1:]])
            yield np.insert(letters[ids], starts, ord(_BETWEEN)).tobytes().decode("utf-32-le")

    alphabet = [chr(_FIRST + number) for number in range(len(plain))]
    size = len(plain) + room + room // 8 + _SLACK
    learner = Backend(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(_BETWEEN)
    common: dict[str, Any] = {"min_frequency": section.min_frequency, "show_progress": False}
    learner.train_from_iterator(words(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, **common))
    prefix = state["model"].get("continuing_subword_prefix") or ""

    def spelled(letters: str) -> str:
        first, *rest = (names[ord(letter) - _FIRST] for letter in letters)
        return first + "".join(name.removeprefix(prefix) for name in rest)

    merges, there, found = state["model"]["merges"], set(state["model"]["vocab"]), dict[str, None]()
    known = {tuple(merge) for merge in merges}
    for left, right in json.loads(learner.to_str())["model"]["merges"]:
        pair, token = (spelled(left), spelled(right)), spelled(left + right)
        if token not in there and token not in found:
            if len(found) == room:
                break
            found[token] = None
        if pair not in known:
            known.add(pair)
            merges.append(list(pair))
    return list(found)


def _more_words(backend: Backend, state: dict[str, Any], text: TrainingText, section: TokenizerSection) -> list[str]:
    """The pieces of a new tokenizer of the same pipeline, in the order in which they were learned."""
    if (mark := state["model"].get("continuing_subword_prefix", CONTINUATION)) != CONTINUATION:
        problem = f"A wordpiece vocabulary that continues words by {mark!r} cannot be extended"
        raise UsageError(problem, f"name one that does by {CONTINUATION}")
    empty = models.WordPiece({}, unk_token=section.unk) if section.algorithm == "wordpiece" else None
    learner = with_words_of(backend, empty or models.WordLevel({}, unk_token=section.unk))
    LEARNERS[section.algorithm](learner, text.pieces, section, text.beyond)
    found = learner.get_vocab()
    return sorted(found.keys() - set(special_tokens(section)), key=found.__getitem__)


def replaced_pieces(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """For every id of a tokenizer that extends an old one: the old ids, in order (or none), that its token replaces."""
    backend, longer = copy_backend(old.to_json()), copy_backend(new.to_json())
    vocabulary, model = backend.get_vocab(), json.loads(old.to_json())["model"]
    suffix, unknown = model.get("end_of_word_suffix") or "", model.get("unk_token")
    if old.algorithm == "wordpiece":
        tails = {name.removeprefix(CONTINUATION): one for name, one in vocabulary.items() if name[:2] == CONTINUATION}
        tails[unknown] = vocabulary[unknown]
        inside = models.WordPiece(tails, unk_token=unknown, continuing_subword_prefix="")
    found = {}
    for name, token_id in longer.get_vocab().items():
        if name in vocabulary:
            continue
        if token_id in new.special_ids:
            found[token_id] = old.encode(name)
        elif old.algorithm == "wordpiece":
            cut = inside if name.startswith(CONTINUATION) else backend.model
            found[token_id] = [token.id for token in cut.tokenize(name.removeprefix(CONTINUATION))]
        else:
            found[token_id] = [token.id for token in backend.model.tokenize(name.removesuffix(suffix))]
    return found
