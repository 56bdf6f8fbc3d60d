"""Text generation from a run, whole or streaming: prompts are continued, translated, or get their masks
filled, whichever the run was trained for."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from tfcli.generation.batch import GrowingText, PromptBatch
from tfcli.generation.decode import NewToken
from tfcli.generation.fill_mask import CANDIDATES, fill_all
from tfcli.generation.settings import settled
from tfcli.models.encoder import Encoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Filled, Generated
from tfcli.runs.load import LoadedRun


def generate(
    run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None
) -> list[Generated] | Filled:
    """What the run makes of a prompt: `num_samples` texts, of beams the best first, or the filled masks of an encoder.

    Args:
        sample: whether to sample, at `settings.temperature`; None: a decoder does, an encoder-decoder not.

    Raises:
        UsageError: the prompt or a setting does not fit the model; says what would.
    """
    return next(generate_all(run, [prompt], settings, sample=sample))


def generate_all(
    run: LoadedRun, prompts: Iterable[str], settings: GenerateSection, *, sample: bool | None = None
) -> Iterator[list[Generated] | Filled]:
    """As `generate`, for every prompt in its turn; `settings.batch_size` of them are read side by side.

    Each gets what it would get alone. No more prompts are taken than are read next.

    Raises:
        UsageError: as `generate`, once the first of a batch is asked for.
    """
    settings = settled(run.model, run.tokenizer, settings, sample)
    waiting = iter(prompts)
    while batch := list(islice(waiting, settings.batch_size)):
        if isinstance(run.model, Encoder):
            top_k = settings.top_k or CANDIDATES
            yield from fill_all(run.model, run.tokenizer, batch, top_k, joint=settings.joint)
        else:
            yield from _texts(PromptBatch(run.model, run.tokenizer, batch, settings), settings)


def stream(
    run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None
) -> Iterator[str | Generated]:
    """One text piece by piece as it comes, and then the whole as a record.

    No piece ends in half a character, nor in what may become a stop text. The prompt is checked and read before this
    returns. For decoders and encoder-decoders; `num_samples` and `beam` are for `generate`.

    Raises:
        UsageError: as `generate`.
    """
    assert not isinstance(run.model, Encoder), "an encoder fills masks: there is nothing to stream"
    settings = replace(settled(run.model, run.tokenizer, settings, sample), num_samples=1, beam=1, beam_groups=1)
    batch = PromptBatch(run.model, run.tokenizer, [prompt], settings)
    return _pieces(batch.text(0), batch.tokens())


def _pieces(text: GrowingText, tokens: Iterable[NewToken]) -> Iterator[str | Generated]:
    for token in tokens:
        if piece := text.push(token.token_id, token.log_probability):
            yield piece
        if text.stopped:
            break
    if piece := text.finish():
        yield piece
    yield text.record()


def _texts(batch: PromptBatch, settings: GenerateSection) -> Iterator[list[Generated]]:
    """The texts of prompts that are read side by side."""
    if settings.beam > 1:
        for number, found in enumerate(batch.beams()):
            yield [batch.record(number, continuation) for continuation in found]
        return
    samples = settings.num_samples
    texts = [batch.text(number) for number in range(len(batch.prompts)) for _ in range(samples)]
    for token in batch.tokens():
        texts[token.row].push(token.token_id, token.log_probability)
    for first in range(0, len(texts), samples):
        yield [text.finished() for text in texts[first : first + samples]]
