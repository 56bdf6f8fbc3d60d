"""Translate a whole corpus, in batches of sources of about the same length."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfcli.generation.beam import prompt_beams
from tfcli.generation.decode import Ends, collect, prompt_tokens
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles


def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    prefix: Sequence[int] = (),
    ends: Ends | None = None,
    batch_size: int = 64,
) -> list[list[int]]:
    """The best text of a beam search for every source, or with a beam of 1 the most probable token at every step, in
    the order of `sources`.

    Args:
        sources: token ids without bos and eos.
        settings: nothing is sampled, whatever its temperature; its `num_samples` is 1.
        prefix: what every text begins with.
        ends: is asked with a text's new tokens after each of them, whether the text ends there.
        batch_size: beginnings that are read side by side.

    Returns:
        Token ids without bos and eos.

    Raises:
        UsageError: a source is longer than the context.
    """
    settings = replace(settings, temperature=0.0, num_samples=1)
    found: list[list[int]] = [[] for _ in sources]
    for numbers in _batches(sources, max(1, batch_size // settings.beam)):
        batch = [sources[number] for number in numbers]
        if settings.beam == 1:
            texts = collect(prompt_tokens(model, batch, roles, settings, prefix=prefix, ends=ends), len(batch))
        else:
            texts = [best for [best] in prompt_beams(model, batch, roles, settings, prefix=prefix, ends=ends)]
        for number, text in zip(numbers, texts, strict=True):
            found[number] = [token for token in text.token_ids if token not in roles.ends]
    return found


def _batches(sources: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """The numbers of the sources, the longest first."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]), reverse=True)
    for first in range(0, len(order), size):
        yield order[first : first + size]
