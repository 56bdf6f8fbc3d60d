"""Tokenizer round trip: text, ids and back, for every text that there is."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer as Backend

from tfcli.tokenization.backend import copied
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.verification.check import Finding, at_most, proof
from tfcli.verification.subject import VerifiedRun
from tfcli.verification.torture import framings, torture_texts

_SHOWN = 40
"""Characters of a text that a reason quotes."""


@proof(
    "tokenizer round trip",
    "Text that is encoded and decoded is the same text (byte-level), or encodes to the same ids (others).",
)
def round_trip(subject: VerifiedRun) -> Finding:
    """Every plane of Unicode, the torture set, and the run's own text.

    What the library alone loses with the same vocabulary is a property of the checkpoint.
    """
    tokenizer = subject.run.tokenizer
    kept = _same_text if tokenizer.is_lossless else _same_ids
    alone = copied(tokenizer.to_json())
    alone.encode_special_tokens = True
    lost = [text for text in _texts(subject) if not kept(tokenizer, text)]
    finding = _count((text for text in lost if not _is_its_own(tokenizer, alone, text)), "texts")
    letters = tokenizer.missing_bytes
    notes = [f"the vocabulary has no letter for {len(letters)} of the 256 bytes"] * bool(letters)
    notes += [f"{len(lost)} texts are not kept, the first is {text[:_SHOWN]!a}" for text in lost[:1]]
    return replace(finding, note="; ".join([*notes, "so it is in the tokenizer's own file"]) if notes else "")


@proof("special tokens apart", "No text becomes a special token by its spelling.")
def special_tokens_apart(subject: VerifiedRun) -> Finding:
    """Every special token's name, alone and within words, in all texts' company."""
    tokenizer = subject.run.tokenizer
    names = tokenizer.labels(sorted(tokenizer.special_ids))
    texts = [*_texts(subject), *(text for name in names for text in framings(name))]
    reached = (text for text in texts if tokenizer.special_ids & set(tokenizer.encode(text)))
    return _count(reached, "texts")


@proof("tokenizer batches", "Texts that are encoded together get the ids that each gets alone.")
def batches(subject: VerifiedRun) -> Finding:
    """Batches are encoded by another function of the library, on several threads."""
    tokenizer, texts = subject.run.tokenizer, _texts(subject)
    together = tokenizer.encode_batch(texts)
    return _count((text for text, ids in zip(texts, together, strict=True) if ids != tokenizer.encode(text)), "texts")


@proof("tokenizer stream", "Tokens that are decoded one by one give the text of all of them.")
def stream(subject: VerifiedRun) -> Finding:
    """The torture set's ids, and ids in no order that any text has: a model may choose them."""
    tokenizer = subject.run.tokenizer
    random = np.random.default_rng(0).integers(tokenizer.vocab_size, size=(8, 64)).tolist()
    sequences = [*tokenizer.encode_batch(_texts(subject)), *random]
    texts = [(tokenizer.decode(ids), _streamed(tokenizer, ids)) for ids in sequences]
    return _count((whole for whole, streamed in texts if streamed != whole), "texts")


def _texts(subject: VerifiedRun) -> list[str]:
    return [*torture_texts(), *subject.texts()]


def _same_text(tokenizer: Tokenizer, text: str) -> bool:
    return tokenizer.decode(tokenizer.encode(text)) == text


def _same_ids(tokenizer: Tokenizer, text: str) -> bool:
    ids, unknown = tokenizer.encode(text), tokenizer.roles.unk
    if unknown in ids and not tokenizer.decode([unknown]):  # it leaves nothing behind that could be encoded
        text = tokenizer.decode(ids)
    if tokenizer.decode(tokenizer.encode(" a")) == "a":  # the first space is taken away, each time anew
        text = text.lstrip()
    ids = tokenizer.encode(text)
    return tokenizer.encode(tokenizer.decode(ids)) == ids


def _is_its_own(tokenizer: Tokenizer, alone: Backend, text: str) -> bool:
    """Whether the library, without tfcli, makes the same ids of a text, and the same text of them."""
    ids = alone.encode(text, add_special_tokens=False).ids
    return ids == tokenizer.encode(text) and alone.decode(ids) == tokenizer.decode(ids)


def _streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    pieces = tokenizer.stream()
    return "".join([*map(pieces.push, ids), pieces.finish()])


def _count(found: Iterator[str], unit: str) -> Finding:
    texts = list(found)
    return at_most(len(texts), 0, unit, f"the first is {texts[0][:_SHOWN]!a}" if texts else "")
