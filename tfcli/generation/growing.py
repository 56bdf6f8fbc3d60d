"""A text that grows: from tokens, as they come, to pieces of text, and in the end to a record."""

from collections.abc import Sequence

from tfcli.generation.decode import finish_of
from tfcli.generation.stop import StopTexts
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Generated
from tfcli.tokenization.tokenizer import Tokenizer


class GrowingText:
    """One text behind a prompt. What `push` and `finish` return is together the text of the record.

    Args:
        before: the ids of what is continued; empty for a translation.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str, before: Sequence[int], settings: GenerateSection) -> None:
        self._tokenizer, self._prompt, self._settings = tokenizer, prompt, settings
        self._stream, self._stops = tokenizer.stream(before), StopTexts(settings.stop)
        self._tokens: list[tuple[int, float]] = []
        self._pieces: list[str] = []

    @property
    def stopped(self) -> bool:
        """Whether a stop text has appeared: the text is whole, and later tokens do not belong to it."""
        return self._stops.stopped

    def push(self, token_id: int, log_probability: float) -> str:
        """The text that a token brings: never half a character, and nothing that may become a stop text; nothing at all
        once the text has stopped."""
        if self.stopped:
            return ""
        self._tokens.append((token_id, log_probability))
        if token_id in self._tokenizer.roles.ends:
            return ""  # nothing of the text, even where it has letters
        return self._kept(self._stops.push(self._stream.push(token_id)))

    def finish(self) -> str:
        """What has been held back."""
        return self._kept(self._stops.push(self._stream.finish()) + self._stops.finish())

    def finished(self) -> Generated:
        """The record, what has been held back included."""
        self.finish()
        return self.record()

    def record(self) -> Generated:
        """The whole, once it is finished."""
        ids = tuple(token_id for token_id, _ in self._tokens)
        log_probabilities = tuple(log_probability for _, log_probability in self._tokens)
        finish = finish_of(ids, self._tokenizer.roles, self._settings.max_new_tokens, stopped=self.stopped)
        text = "".join(self._pieces)
        return Generated(self._prompt, text, ids, sum(log_probabilities), log_probabilities, finish)

    def _kept(self, piece: str) -> str:
        if piece:
            self._pieces.append(piece)
        return piece
