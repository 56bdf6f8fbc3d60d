"""Translate a whole corpus: greedy, in batches of sources of about the same length."""

from collections.abc import Sequence
from dataclasses import replace

from tfcli.generation.decode import collect, decode
from tfcli.generation.reader import read_sources
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles


def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    batch_size: int = 64,
) -> list[list[int]]:
    """The most probable token at every step, for every source, in the order of `sources`.

    Args:
        sources: token ids without bos and eos.
        settings: its `max_new_tokens` counts; decoding is greedy whatever its temperature.

    Returns:
        Token ids without bos and eos.

    Raises:
        UsageError: a source is longer than the context.
    """
    greedy = replace(settings, temperature=0.0)
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]), reverse=True)
    found: dict[int, list[int]] = {}
    for first in range(0, len(order), batch_size):
        numbers = order[first : first + batch_size]
        batch = [sources[number] for number in numbers]
        reader = read_sources(model, batch, roles, rows=len(batch), max_new_tokens=settings.max_new_tokens)
        texts = collect(decode(reader, roles, greedy), len(batch))
        for number, text in zip(numbers, texts, strict=True):
            found[number] = [token for token in text.token_ids if token != roles.eos]
    return [found[number] for number in range(len(sources))]
