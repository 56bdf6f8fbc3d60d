"""Prompts that are read side by side: from their text to new tokens, and from new tokens to texts."""

from collections.abc import Iterator, Sequence

from tfcli.generation.beam import prompt_beams
from tfcli.generation.beam_groups import Observe
from tfcli.generation.decode import Continuation, NewToken, prompt_tokens
from tfcli.generation.growing import GrowingText
from tfcli.generation.prompts import prefix_ids, prompt_ids
from tfcli.generation.reader import continued
from tfcli.generation.stop import stop_finder
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
        self.prompts = prompts
        self._model, self._tokenizer, self._settings = model, tokenizer, settings
        self._ids = [prompt_ids(model, tokenizer, prompt, settings) for prompt in prompts]
        self._prefix = prefix_ids(model, tokenizer, settings)
        self._continued = continued(model, self._ids, tokenizer.roles)
        self._ends = stop_finder(tokenizer, settings.stop, self._continued)

    def tokens(self, options: int = 0) -> Iterator[NewToken]:
        """New tokens, `num_samples` texts a prompt. The prompts are read before this returns.

        Args:
            options: how many candidates to tell at every step.

        Raises:
            UsageError: a prompt is longer than the context.
        """
        return prompt_tokens(
            self._model,
            self._ids,
            self._tokenizer.roles,
            self._settings,
            prefix=self._prefix,
            ends=self._ends,
            options=options,
        )

    def beams(self, observe: Observe | None = None) -> list[list[Continuation]]:
        """The best texts of every prompt.

        Raises:
            UsageError: as `tokens`.
        """
        return prompt_beams(
            self._model,
            self._ids,
            self._tokenizer.roles,
            self._settings,
            prefix=self._prefix,
            ends=self._ends,
            observe=observe,
        )

    def text(self, number: int) -> GrowingText:
        """A text of a prompt, to grow."""
        return GrowingText(self._tokenizer, self.prompts[number], self._continued[number], self._settings)

    def record(self, number: int, found: Continuation) -> Generated:
        """A text that has been found as a whole."""
        text = self.text(number)
        for token_id, log_probability in zip(found.token_ids, found.log_probabilities, strict=True):
            text.push(token_id, log_probability)
        return text.finished()
