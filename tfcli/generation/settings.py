"""Generation settings as they apply to a model: greedy decoding or sampling, and what does not go together."""

from dataclasses import replace

from tfcli.errors import UsageError
from tfcli.generation.prompts import prefix_ids
from tfcli.models.decoder import Decoder
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.tokenization.tokenizer import Tokenizer


def settled(
    model: Transformer, tokenizer: Tokenizer, settings: GenerateSection, sample: bool | None
) -> GenerateSection:
    """The settings once it is clear whether to sample: where not, the temperature is 0.

    Args:
        sample: whether to; None: a decoder does, an encoder-decoder not.

    Raises:
        UsageError: they contradict each other or the vocabulary; says which, and what would fit.
    """
    _check(tokenizer, settings, sample)
    prefix_ids(model, tokenizer, settings)
    samples = isinstance(model, Decoder) if sample is None else sample
    if settings.beyond_context == "slide":
        settings = replace(settings, batch_size=1)  # what is read again would depend on the longest text of a batch
    return settings if samples else replace(settings, temperature=0.0)


def _check(tokenizer: Tokenizer, settings: GenerateSection, sample: bool | None) -> None:
    if settings.top_k > tokenizer.vocab_size:
        raise UsageError(
            f"top_k = {settings.top_k} is above the vocabulary's {tokenizer.vocab_size} tokens",
            f"choose {tokenizer.vocab_size} at most, or 0 for all",
        )
    if settings.chat and tokenizer.chat is None:
        raise UsageError(
            "The run has no chat template, as imported chat models bring along",
            "leave --chat out, or import it again",
        )
    if settings.system and not settings.chat:
        raise UsageError("--system is a part of a chat, and there is none", "add --chat")
    if settings.beam > 1 and sample and settings.temperature > 0:
        raise UsageError(
            f"A beam of {settings.beam} draws no samples, as temperature = {settings.temperature:g} asks",
            "give one of the two",
        )
    if 1 < settings.beam < settings.num_samples:
        raise UsageError(
            f"A beam of {settings.beam} cannot give {settings.num_samples} texts",
            "raise the beam to their number",
        )
