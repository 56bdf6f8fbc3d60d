"""Translate a whole corpus, in batches of sources of about the same length."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfcli.generation.beam import prompt_beams
from tfcli.generation.decode import Continuation, collect, prompt_tokens
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles


def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    batch_size: int = 128,
) -> list[list[int]]:
    """The best text of a beam search for every source, or with a beam of 1 the most probable token at every step, in
    the order of `sources`.

    Args:
        sources: token ids without bos and eos.
        settings: nothing is sampled, whatever its temperature; its `num_samples` is 1.
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
        for number, text in zip(numbers, _translated(model, batch, roles, settings), strict=True):
            found[number] = [token for token in text.token_ids if token != roles.eos]
    return found


def _batches(sources: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """The numbers of the sources, the longest first."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]), reverse=True)
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _translated(
    model: EncoderDecoder, sources: Sequence[Sequence[int]], roles: TokenRoles, settings: GenerateSection
) -> list[Continuation]:
    if settings.beam == 1:
        return collect(prompt_tokens(model, sources, roles, settings), len(sources))
    return [texts[0] for texts in prompt_beams(model, sources, roles, settings)]
