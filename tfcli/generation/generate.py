"""Text from a run: continue a prompt, translate it, or fill its masks, whichever the run was trained for."""

from collections.abc import Iterator
from dataclasses import replace

from tfcli.errors import UsageError
from tfcli.generation.beam import beam_search
from tfcli.generation.decode import Continuation, NewToken, collect, continuations, translations
from tfcli.generation.fill_mask import CANDIDATES, fill
from tfcli.generation.reader import read_prompt, read_sources
from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Filled, Generated
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer


def generate(
    run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None
) -> list[Generated] | Filled:
    """What the run makes of a prompt: `num_samples` texts, or the filled masks of an encoder.

    Args:
        sample: whether to sample, at `settings.temperature`; None: a decoder does, an encoder-decoder not.

    Raises:
        UsageError: the prompt or a setting does not fit the model; says what would.
    """
    if isinstance(run.model, Encoder):
        _check(run.tokenizer, settings, sample)
        return fill(run.model, run.tokenizer, prompt, settings.top_k or CANDIDATES)
    return texts(run.model, run.tokenizer, prompt, settings, sample=sample)


def stream(
    run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None
) -> Iterator[str | Generated]:
    """One text piece by piece as it comes, never half a character, and then the whole as a record.

    The prompt is checked and read before this returns. For decoders and encoder-decoders; `num_samples` and
    `beam` are for `generate`.

    Raises:
        UsageError: as `generate`.
    """
    assert not isinstance(run.model, Encoder), "an encoder fills masks: there is nothing to stream"
    return stream_text(run.model, run.tokenizer, prompt, settings, sample=sample)


def texts(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str,
    settings: GenerateSection,
    *,
    sample: bool | None = None,
) -> list[Generated]:
    """As `generate`, for a decoder or an encoder-decoder without its run; with a beam, the best first.

    Raises:
        UsageError: as `generate`.
    """
    settings = _settled(model, tokenizer, settings, sample)
    ids = _prompt_ids(model, tokenizer, prompt)
    if settings.beam > 1:
        found = _beam(model, tokenizer, ids, settings)
    else:
        found = collect(_tokens(model, tokenizer, ids, settings), settings.num_samples)
    after = ids if isinstance(model, Decoder) else []
    return [_record(tokenizer, prompt, text, after) for text in found]


def stream_text(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str,
    settings: GenerateSection,
    *,
    sample: bool | None = None,
) -> Iterator[str | Generated]:
    """As `stream`, without a run.

    Raises:
        UsageError: as `generate`.
    """
    settings = replace(_settled(model, tokenizer, settings, sample), num_samples=1, beam=1)
    ids = _prompt_ids(model, tokenizer, prompt)
    tokens = _tokens(model, tokenizer, ids, settings)
    return _pieces(tokenizer, prompt, tokens, ids if isinstance(model, Decoder) else [])


def _pieces(
    tokenizer: Tokenizer, prompt: str, tokens: Iterator[NewToken], after: list[int]
) -> Iterator[str | Generated]:
    text = tokenizer.stream(after)
    seen, pieces = [], []
    for token in tokens:
        seen.append(token)
        pieces.append(text.push(token.token_id))
        if pieces[-1]:
            yield pieces[-1]
    pieces.append(text.finish())
    if pieces[-1]:
        yield pieces[-1]
    whole = collect(seen, 1)[0]
    yield Generated(prompt, "".join(pieces), whole.token_ids, whole.score)


def _record(tokenizer: Tokenizer, prompt: str, text: Continuation, after: list[int]) -> Generated:
    # Through the stream as well: decoded alone, a text would lose the space that parts it from its prompt.
    stream = tokenizer.stream(after)
    pieces = [stream.push(token) for token in text.token_ids]
    return Generated(prompt, "".join(pieces) + stream.finish(), text.token_ids, text.score)


def _tokens(model: Transformer, tokenizer: Tokenizer, ids: list[int], settings: GenerateSection) -> Iterator[NewToken]:
    if isinstance(model, EncoderDecoder):
        return translations(model, ids, tokenizer.roles, settings)
    assert isinstance(model, Decoder)
    return continuations(model, ids, tokenizer.roles, settings)


def _beam(model: Transformer, tokenizer: Tokenizer, ids: list[int], settings: GenerateSection) -> list[Continuation]:
    rows, limit = settings.beam, settings.max_new_tokens
    if isinstance(model, EncoderDecoder):
        reader = read_sources(model, [ids], tokenizer.roles, rows=rows, max_new_tokens=limit)
    else:
        assert isinstance(model, Decoder)
        reader = read_prompt(model, ids, rows=rows, max_new_tokens=limit)
    return beam_search(reader, tokenizer.roles, beam=rows, best=settings.num_samples)


def _prompt_ids(model: Transformer, tokenizer: Tokenizer, prompt: str) -> list[int]:
    """``<s> prompt`` for a decoder; the bare source for an encoder-decoder, whose end is added later."""
    ids = tokenizer.encode(prompt)
    if isinstance(model, Decoder):
        return [tokenizer.roles.bos, *ids]
    if not ids:
        raise UsageError(f"The prompt {prompt!r} is empty, and this run translates", "give it a sentence")
    return ids


def _settled(
    model: Transformer, tokenizer: Tokenizer, settings: GenerateSection, sample: bool | None
) -> GenerateSection:
    """The settings once it is clear whether to sample."""
    _check(tokenizer, settings, sample)
    samples = isinstance(model, Decoder) if sample is None else sample
    return settings if samples else replace(settings, temperature=0.0)


def _check(tokenizer: Tokenizer, settings: GenerateSection, sample: bool | None) -> None:
    """Refuse settings that contradict each other or the vocabulary.

    Raises:
        UsageError: says which, and what would fit.
    """
    if settings.top_k > tokenizer.vocab_size:
        raise UsageError(
            f"top_k = {settings.top_k} is above the vocabulary's {tokenizer.vocab_size} tokens",
            f"choose {tokenizer.vocab_size} at most, or 0 for all",
        )
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
