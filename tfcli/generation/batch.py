"""Streaming: prompts that are read side by side, and texts that grow token by token, as they come."""

from collections.abc import Iterator, Sequence
from typing import Any

from tfcli.generation.beam import prompt_beams
from tfcli.generation.beam_groups import ObserveNode
from tfcli.generation.decode import Continuation, NewToken, Observe, finish_of, prompt_tokens
from tfcli.generation.prompts import prefix_ids, prompt_ids
from tfcli.generation.reader import continued
from tfcli.generation.stop import StopTexts, stop_finder
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Generated
from tfcli.tokenization.tokenizer import Tokenizer


class PromptBatch:
    """Prompts for a decoder or an encoder-decoder.

    Args:
        settings: once they are settled.

    Raises:
        UsageError: a prompt is empty where there must be something to translate.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, prompts: Sequence[str], settings: GenerateSection
    ) -> None:
        assert isinstance(model, Decoder | EncoderDecoder)
        self.prompts, self.model = prompts, model
        self.ids = [prompt_ids(model, tokenizer, prompt, settings) for prompt in prompts]
        self._tokenizer, self._settings = tokenizer, settings
        self._continued = continued(model, self.ids, tokenizer.roles)
        self.how: dict[str, Any] = {
            "prefix": prefix_ids(model, tokenizer, settings),
            "ends": stop_finder(tokenizer, settings.stop, self._continued),
        }
        """`prefix` and `ends` as `decode` and `beam_search` take them."""

    def tokens(self, observe: Observe | None = None) -> Iterator[NewToken]:
        """As `prompt_tokens`: new tokens, `num_samples` texts a prompt."""
        return prompt_tokens(self.model, self.ids, self._tokenizer.roles, self._settings, **self.how, observe=observe)

    def beams(self, observe: ObserveNode | None = None) -> list[list[Continuation]]:
        """As `prompt_beams`: the best texts of every prompt."""
        return prompt_beams(self.model, self.ids, self._tokenizer.roles, self._settings, **self.how, observe=observe)

    def text(self, number: int) -> "GrowingText":
        """A text of a prompt, to grow."""
        return GrowingText(self._tokenizer, self.prompts[number], self._continued[number], self._settings)

    def record(self, number: int, found: Continuation) -> Generated:
        """A text that has been found as a whole."""
        text = self.text(number)
        for token_id, log_probability in zip(found.token_ids, found.log_probabilities, strict=True):
            text.push(token_id, log_probability)
        return text.finished()


class GrowingText:
    """One text behind a prompt, streamed: what `push` and `finish` return is together the text of the record.

    Args:
        before: the ids of what is continued; empty for a translation.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str, before: Sequence[int], settings: GenerateSection) -> None:
        self._tokenizer, self._prompt, self._settings = tokenizer, prompt, settings
        self._stream, self._stops = tokenizer.stream(before), StopTexts(settings.stop)
        self._ids: list[int] = []
        self._log_probabilities: list[float] = []
        self._text = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop text has appeared: the text is whole, and later tokens do not belong to it."""
        return self._stops.stopped

    def push(self, token_id: int, log_probability: float) -> str:
        """The text that a token brings: never half a character, and nothing that may become a stop text; nothing at all
        once the text has stopped."""
        if self.stopped:
            return ""
        self._ids.append(token_id)
        self._log_probabilities.append(log_probability)
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
        ids, log_probabilities = tuple(self._ids), tuple(self._log_probabilities)
        finish = finish_of(ids, self._tokenizer.roles, self._settings.max_new_tokens, stopped=self.stopped)
        return Generated(self._prompt, self._text, ids, sum(log_probabilities), log_probabilities, finish)

    def _kept(self, piece: str) -> str:
        self._text += piece
        return piece
