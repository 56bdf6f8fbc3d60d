"""Machine translation of a whole corpus, in batches of sources of about the same length."""

from collections.abc import Sequence
from dataclasses import replace

from tfcli.generation.beam import prompt_beams
from tfcli.generation.decode import StoppingCriterion, collect, prompt_tokens
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
    ends: StoppingCriterion | None = None,
    batch_size: int = 64,
) -> list[list[int]]:
    """The best text of a beam search for every source, or with a beam of 1 the most probable token at every step, in
    the order of `sources`.

    Args:
        sources: token ids without bos and eos.
        settings: nothing is sampled, whatever its temperature; its `num_samples` is 1.
        prefix: what every text begins with.
        ends: is asked with a text's new tokens after each of them, whether the text ends there.
        batch_size: hypotheses that are read side by side.

    Returns:
        Token ids without bos and eos.

    Raises:
        UsageError: a source is longer than the context.
    """
    settings = replace(settings, temperature=0.0, num_samples=1)
    found: list[list[int]] = [[] for _ in sources]
    longest_first = sorted(range(len(sources)), key=lambda number: len(sources[number]), reverse=True)
    size = max(1, batch_size // settings.beam)
    for first in range(0, len(sources), size):
        numbers = longest_first[first : first + size]
        batch = [sources[number] for number in numbers]
        if settings.beam == 1:
            texts = collect(prompt_tokens(model, batch, roles, settings, prefix=prefix, ends=ends), len(batch))
        else:
            texts = [best for [best] in prompt_beams(model, batch, roles, settings, prefix=prefix, ends=ends)]
        for number, text in zip(numbers, texts, strict=True):
            found[number] = [token for token in text.token_ids if token not in roles.ends]
    return found
