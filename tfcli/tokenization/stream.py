"""Streaming detokenization: text while it is being generated, one token at a time."""

from collections.abc import Callable, Iterable

INCOMPLETE = "\ufffd"
"""How the library decodes bytes that are not a whole character yet."""


class TokenStream:
    """Turns ids into text as they come: the pieces and the rest together are the decoded text.

    Each new token is decoded together with the last few, which decide on the space between, and what they alone
    decode to is left out.

    Args:
        decode: ids to text, special tokens skipped.
        special: the ids that stand for no text.
        unsettled: the ids whose text depends on those that follow, which single bytes of a character are.
        after: ids that came before, such as a prompt's; they are not repeated, but decide on the first space.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        special: frozenset[int],
        unsettled: frozenset[int],
        after: Iterable[int],
    ) -> None:
        self._decode, self._special, self._unsettled = decode, special, unsettled
        self._before = [token_id for token_id in after if token_id not in special]
        self._held: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty while a character is incomplete."""
        if token_id in self._special:
            return ""
        self._held.append(token_id)
        if token_id in self._unsettled:
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
