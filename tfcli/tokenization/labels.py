"""Token labels and streaming: what a token is called, and text while it is being generated."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_LONE_BYTE = re.compile("[\udc80-\udcff]")  # how `surrogateescape` decodes a byte that is no whole character
_NAMED_BYTE = re.compile("⟨[0-9A-F]{2}⟩")
_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")


def byte_level_label(token: str) -> str:
    r"""The label of a byte-level token, whose characters are bytes; those of no whole character become ``⟨E2⟩``.

    >>> byte_level_label("Ġbank"), byte_level_label("Ċ"), byte_level_label("ĠâĤ")
    (' bank', '\n', ' ⟨E2⟩⟨82⟩')
    """
    table = _byte_of_character()
    if not all(character in table for character in token):
        return token
    text = bytes(table[character] for character in token).decode("utf-8", "surrogateescape")
    return _LONE_BYTE.sub(lambda lone: f"⟨{ord(lone.group()) - 0xDC00:02X}⟩", text)


def byte_fallback_label(token: str) -> str:
    """The label of a token that spells the space as ▁, and a byte that no other token holds as ``<0x0A>``.

    >>> byte_fallback_label("▁bank"), byte_fallback_label("<0x41>"), byte_fallback_label("<0xE2>")
    (' bank', 'A', '⟨E2⟩')
    """
    if not (byte := _BYTE_TOKEN.fullmatch(token)):
        return token.replace("▁", " ")
    return chr(int(byte[1], 16)) if byte[1] < "80" else f"⟨{byte[1]}⟩"


def labeller(pipeline: str) -> Callable[[str], str]:
    """Choose how to label a token, from the pipeline's serialised form."""
    if '"ByteLevel"' in pipeline:
        return byte_level_label
    if '"ByteFallback"' in pipeline:
        return byte_fallback_label
    return lambda token: token.replace("▁", " ") if "▁" in pipeline else token


def lone_bytes(label: str) -> bool:
    """Whether a label names bytes that are no whole character.

    >>> lone_bytes(" ⟨E2⟩"), lone_bytes("⟨E⟩")
    (True, False)
    """
    return _NAMED_BYTE.search(label) is not None


def are_one_word(text: str, label: str) -> bool:
    """Whether a token goes on with the text before it: no space between, and both are letters, or both signs.

    >>> are_one_word(" T", "om"), are_one_word("Tom", " ran"), are_one_word("Tom", ","), are_one_word(" ", "r")
    (True, False, False, True)
    """
    if "\n" in text or (label.isspace() and "\n" in label):
        return False
    if not text.strip():
        return True
    return not label[:1].isspace() and _is_letter(text[-1:]) == _is_letter(label[:1])


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in "_'’-⟨⟩" or unicodedata.combining(character or " ") > 0


class WordStarts:
    """Where words begin in rows of ids, for whole-word masking, by tables: what `are_one_word` asks is told by each
    token's first and last character. The `labels` are those of all ids; `alone`, (Vocab,), which are a whole word."""

    def __init__(self, labels: Sequence[str], alone: NDArray[np.bool_], algorithm: str) -> None:
        def which(test: Callable[[str], bool]) -> NDArray[np.bool_]:
            return np.array([test(label) for label in labels])

        if algorithm in ("word", "wordpiece"):
            self._begins = alone | ~which(lambda label: algorithm == "wordpiece" and label.startswith("##"))
            self._ends, self._blank = alone, np.ones_like(alone)
        else:
            self._begins = alone | which(lambda label: label.isspace() and "\n" in label)
            self._ends = alone | which(lambda label: "\n" in label or label.endswith("</w>"))
            self._blank = which(lambda label: not label.strip())
        self._spaced = which(lambda label: label[:1].isspace())
        self._first = which(lambda label: _is_letter(label[:1]))
        self._last = which(lambda label: _is_letter(label[-1:]))

    def __call__(self, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Where they begin; the first of each row does. Shape: ids and result (B, S)."""
        starts = np.ones(ids.shape, dtype=bool)
        before, after = ids[:, :-1], ids[:, 1:]
        apart = self._spaced[after] | (self._last[before] != self._first[after])
        starts[:, 1:] = self._begins[after] | self._ends[before] | (~self._blank[before] & apart)
        return starts


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and following."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


INCOMPLETE = "\ufffd"  # how the library decodes bytes that are not a whole character yet


class TokenStream:
    """Turns ids into text as they come: the pieces and the rest together are the decoded text. Each new token is
    decoded together with the last few, which decide on the space between, and what they alone decode to is left out.
    The `special` ids stand for no text, the text of `pending` ones (single bytes of a character) depends on what
    follows, and those `after` which it begins are not repeated."""

    def __init__(
        self, decode: Callable[[list[int]], str], special: frozenset[int], pending: frozenset[int], after: Iterable[int]
    ) -> None:
        self._decode, self._special, self._pending = decode, special, pending
        self._before = [token_id for token_id in after if token_id not in special]
        self._held: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty while a character is incomplete."""
        if token_id in self._special:
            return ""
        self._held.append(token_id)
        if token_id in self._pending:
            return ""
        piece = self._text()
        return "" if piece.endswith(INCOMPLETE) else self._release(piece)

    def finish(self) -> str:
        """What is still held back: bytes that no longer can become a character, shown as U+FFFD."""
        return self._release(self._text())

    def _text(self) -> str:
        """Of the tokens that are held back."""
        return self._decode(self._before + self._held)[len(self._decode(self._before)) :]

    def _release(self, piece: str) -> str:
        if piece:
            self._before, self._held = self._held, []
        return piece
