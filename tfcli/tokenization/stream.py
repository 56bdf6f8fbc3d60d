"""Text while it is being generated, one token at a time."""

from collections.abc import Callable, Iterable

from tokenizers import Tokenizer as Backend
from tokenizers.decoders import DecodeStream


class TokenStream:
    """Turns ids into text as they come: the pieces and the rest together are the decoded text.

    Args:
        backend: the library's tokenizer.
        decode: ids to text, special tokens skipped.
        special: the ids that stand for no text.
        after: ids that came before, such as a prompt's; they are not repeated, but decide on the first space.
    """

    def __init__(
        self,
        backend: Backend,
        decode: Callable[[list[int]], str],
        special: frozenset[int],
        after: Iterable[int],
    ) -> None:
        self._backend = backend
        self._decode = decode
        self._special = special
        self._ids = [token_id for token_id in after if token_id not in special]
        self._written = len(decode(self._ids))
        self._stream = DecodeStream(ids=self._ids, skip_special_tokens=True)

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty while a character is incomplete."""
        if token_id in self._special:
            return ""
        self._ids.append(token_id)
        piece = self._stream.step(self._backend, token_id) or ""
        self._written += len(piece)
        return piece

    def finish(self) -> str:
        """What is still held back: bytes that no longer can become a character, shown as U+FFFD."""
        rest = self._decode(self._ids)[self._written :]
        self._written += len(rest)
        return rest
