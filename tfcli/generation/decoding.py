"""The decode loop: greedy decoding and sampling, token by token, until the end token or another stopping criterion.
Shape legend: R rows (texts), T new tokens a row, S source length, D model, Vocab."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from tfcli.data.batch import SAMPLES, generator
from tfcli.errors import UsageError
from tfcli.generation import sampling
from tfcli.generation.kv_cache import DecodingCache, least_moves
from tfcli.models.transformer import Decoder, EncoderDecoder, Transformer, extend_context, require_extendable
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import Finish
from tfcli.records.roles import TokenRoles

Model = Decoder | EncoderDecoder
Prompts = Sequence[Sequence[int]]


def kept_columns(context: int) -> int:
    """Tokens that are read again where a text slides: three quarters of the context, to have room for new ones."""
    return max(1, context * 3 // 4)


def read_of(
    model: Model, prompts: Prompts, roles: TokenRoles, settings: GenerateSection
) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Sources as they are encoded, ``ids </s>`` (of a decoder none); the beginnings of the new texts; and how many
    tokens each text may get. A `UsageError` where one does not fit."""
    context, beyond = model.section.max_seq_len, settings.beyond_context
    if isinstance(model, EncoderDecoder):
        sources = [roles.source(source) for source in prompts]
        for framed in sources:
            if len(framed) > context:
                problem = f"The source has {len(framed)} tokens, the end token included, and the model's context is "
                room = context - len(roles.source(()))
                raise UsageError(f"{problem}{context}", f"shorten it to {room} tokens at most")
        read = [list(roles.target_prefix)] * len(prompts)
    else:
        sources, last = [], kept_columns(context) if beyond == "slide" else 0
        read = [list(prompt[-last:] if last and len(prompt) > context else prompt) for prompt in prompts]
    if beyond != "stop":
        return sources, read, [settings.max_new_tokens] * len(read)
    longest = max(map(len, read))
    if longest > context:
        problem = f"The prompt has {longest} tokens, the beginning-of-text token included, and the model's context of "
        remedy = f"shorten it to {context} tokens at most, or choose --beyond-context slide"
        raise UsageError(f"{problem}{context} leaves no room for a new one", remedy)
    # The last one need not be read: it is predicted at the context's last position.
    return sources, read, [min(settings.max_new_tokens, context - len(ids) + 1) for ids in read]


def padded(texts: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Texts filled up at the right, and the mask of what is text, two of (B, S); None where none is filled up."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[pad] * (longest - len(text))] for text in texts], dtype=torch.long, device=device)
    if all(len(text) == longest for text in texts):
        return ids, None
    # Told by length: a text may hold the id of padding as well.
    return ids, torch.arange(longest, device=device) < torch.tensor([[len(text)] for text in texts], device=device)


class DecodingState:
    """A model in the middle of generating texts: it has read a prompt or a source for each row.

    Prompts of different length are padded on the left, where no query looks, and each text counts its positions from
    its own beginning. When a text slides, it alone is read again; the texts next to it go on.

    Attributes:
        logits: Predictions for the next token of each row: (R, Vocab), float32 at least.
        limits: The number of new tokens that each row may get.
    """

    @torch.inference_mode()
    def __init__(self, model: Model, prompts: Prompts, roles: TokenRoles, settings: GenerateSection, rows: int) -> None:
        """Read the prompts.

        Args:
            model: A decoder or an encoder-decoder.
            prompts: For a decoder, prompts with the tokens that begin a text; for an encoder-decoder, bare sources.
            roles: The roles of the special tokens.
            settings: How texts are generated; `beyond_context` decides what happens when the context is full.
            rows: The largest number of rows that `select` will ask for.

        Raises:
            UsageError: A prompt is longer than the context, or the model has no positions beyond its context and
                the settings ask for them.
        """
        device = model.device
        sources, read, self.limits = read_of(model, prompts, roles, settings)
        self._extrapolates = settings.beyond_context == "extrapolate"
        if self._extrapolates:
            require_extendable(model)
        self.model = model
        self._memory = self._padding_mask = None
        if isinstance(model, EncoderDecoder):
            ids, self._padding_mask = padded(sources, roles.pad, device)
            self._memory = model.encode(ids, self._padding_mask)
        self._shown_mask = self._padding_mask
        self._lengths = [len(ids) for ids in read]  # of the part of each text that the cache holds
        longest = max(self._lengths)
        # What stands in the padding is never looked at: any token will do.
        start = torch.tensor([ids[:1] * (longest - len(ids)) + ids for ids in read], dtype=torch.long, device=device)
        self._context = self._positions = model.section.max_seq_len
        columns = longest + max(self.limits)
        self._read = start if settings.beyond_context == "slide" and columns > self._context else None
        capacity = columns if self._read is None else self._context
        self._cache = DecodingCache(model, rows, capacity, first=longest, sources=len(sources))
        self._cache.left = self._padding(longest)
        self.logits = self._next(start)

    def read(self, ids: Tensor) -> None:
        """Add one token to each text, of ids (R,)."""
        new = ids[:, None]
        if self._read is not None:
            self._read = torch.cat((self._read, new), dim=1)[:, -self._context - 1 :]
            if self._cache.length == self._context:
                new = self._slid(new)
        self._lengths = [length + 1 for length in self._lengths]
        self.logits = self._next(new)

    def select(self, rows: list[int]) -> None:
        """Text i becomes a copy of what text `rows[i]` was."""
        if rows == list(range(len(self.logits))):
            return
        self.limits = [self.limits[row] for row in rows]
        self._lengths = [self._lengths[row] for row in rows]
        self._cache.select(rows)
        index = torch.tensor(rows, device=self.logits.device)
        self.logits = self.logits.index_select(0, index)
        if self._padding_mask is not None:
            self._shown_mask = self._padding_mask[self._cache.shown_sources]
        if self._read is not None:
            self._read = self._read.index_select(0, index)

    def _slid(self, new: Tensor) -> Tensor:
        """Make room for the newest tokens when all columns are in use, and return the tokens to read next.

        A row slides when its text fills the context, so it is read again without its beginning. Where texts have
        different lengths, the others go on: unused columns on their left are dropped, and each reads its newest token.

        Shape: new (R, 1); returns (R, 1), or (R, T) if all rows slide.
        """
        assert self._read is not None
        kept = kept_columns(self._context)
        full = [row for row, length in enumerate(self._lengths) if length == self._context]
        if len(full) == len(self._lengths):
            self._cache.forget()
            self._cache.left = None
            self._lengths = [kept - 1] * len(full)
            return self._read[:, -kept:]
        assert isinstance(self.model, Decoder), "all translations of a batch have the same length"
        again = None
        if full:
            again = DecodingCache(self.model, len(full), kept, first=kept)
            self._hidden(self._read[full, -kept:], again)
        for row in full:
            self._lengths[row] = kept - 1
        columns = max(self._lengths)
        self._cache.keep_last(columns)
        if again is not None and kept > 1:
            # The newest token is read by the step that follows.
            self._cache.fill_rows(full, again, kept - 1)
        self._cache.left = self._padding(columns)
        return new

    def _padding(self, columns: int) -> Tensor | None:
        """The number of columns on the left of each text that are padding, (R,); None if there are none."""
        if all(length == columns for length in self._lengths):
            return None
        return torch.tensor([columns - length for length in self._lengths], device=self.model.device)

    def _next(self, ids: Tensor) -> Tensor:
        columns = self._cache.length + ids.shape[1]
        if self._extrapolates and columns > self._positions:
            self._positions = 2 * columns
            extend_context(self.model, self._positions)
        hidden = self._hidden(ids, self._cache)
        logits = self.model.head(hidden[:, -1])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _hidden(self, ids: Tensor, cache: DecodingCache) -> Tensor:
        """Read tokens after those that a cache holds. Shape: ids (R, T); returns (R, T, D)."""
        if isinstance(self.model, EncoderDecoder):
            assert self._memory is not None
            return self.model.decode(ids, self._memory, self._shown_mask, cache=cache)
        columns = cache.length + ids.shape[1]
        left = cache.left
        unpadded = None if left is None else torch.arange(columns, device=left.device) >= left[:, None]
        prefix = None
        if self.model.reads_prefix and cache.length == 0:
            prefix = torch.full(ids.shape[:1], columns, device=ids.device)
        return self.model.hidden(ids, unpadded, prefix=prefix, cache=cache)


def continued(model: Transformer | None, prompts: Prompts, roles: TokenRoles) -> Prompts:
    """What new texts go on from: a decoder's prompts, without what tfcli put before them; of translations nothing."""
    if isinstance(model, EncoderDecoder):
        return [()] * len(prompts)
    begun, empty = roles.text_prefix, roles.prompt(())
    own = [() if list(prompt) == empty else prompt for prompt in prompts]
    return [prompt[len(begun) :] if tuple(prompt[: len(begun)]) == begun else prompt for prompt in own]


prefill = DecodingState  # what making one does
StoppingCriterion = Callable[[Sequence[int]], bool]


class Forced(TypedDict, total=False):
    """What texts are held to: `prefix` are the first new tokens of each, whatever is predicted; `ends`, a stopping
    criterion, is asked with a text's new tokens after every one of them whether the text ends there."""

    prefix: Sequence[int]
    ends: StoppingCriterion | None


@dataclass(frozen=True, eq=False)
class DecodingStages:
    """One step of the decode loop, from logits to tokens: what a trace and `explain decoding` are made from.

    `logits` are the model's own; `processed` are without what is never generated, and after the logits processors
    against repetition; `filtered` are those after each of `FILTERS` (greedy: empty). `probabilities` are those of the
    draw, which takes `token_ids` by the random numbers `uniforms` (greedy: None).
    Shape: logits, processed, each of filtered, probabilities (R, Vocab); uniforms, token_ids (R,)."""

    logits: Tensor
    processed: Tensor
    filtered: Mapping[str, Tensor]
    probabilities: Tensor
    uniforms: Tensor | None
    token_ids: Tensor


Observe = Callable[[DecodingStages], None]


@dataclass(frozen=True)
class NewToken:
    """The next token of text number `row`, with ln p (nats) under the model itself."""

    row: int
    token_id: int
    log_probability: float


@dataclass(frozen=True)
class Continuation:
    """New tokens, the end token included where it came, with ln p (nats) of each."""

    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]

    @property
    def score(self) -> float:
        """The sum of the log-probabilities."""
        return sum(self.log_probabilities)


def prompt_tokens(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    observe: Observe | None = None,
    **forced: Unpack[Forced],
) -> Iterator[NewToken]:
    """As `decode`, from prompts as `prefill` takes them, which are read before this returns."""
    state = prefill(model, prompts, roles, settings, rows=len(prompts) * settings.num_samples)
    return decode(state, roles, settings, texts=prompts, observe=observe, **forced)


@torch.inference_mode()
def decode(
    state: DecodingState,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Sequence[Sequence[int]],
    prefix: Sequence[int] = (),
    ends: StoppingCriterion | None = None,
    observe: Observe | None = None,
) -> Iterator[NewToken]:
    """Extend every row of a state `num_samples` times until all texts end; those that have ended leave the batch.

    Text number `row · num_samples + sample` continues that row. What `never_generated` names is never chosen; the
    log-probability is the model's own, from before anything is ruled out.

    `texts` are the prompt or source of each row: with the seed and the number of the sample all that the draws depend
    on. A continuation does not repeat its prompt where `settings` are against it; a translation may. `observe` is given
    the stages of every step."""
    copies = settings.num_samples
    state.select([row for row in range(len(texts)) for _ in range(copies)])
    live = [
        _Text(row * copies + sample, list(before), random_numbers(settings, text, sample))
        for row, (text, before) in enumerate(zip(texts, continued(state.model, texts, roles), strict=True))
        for sample in range(copies)
    ]
    banned = sampling.ruled_out(sampling.never_generated(roles, state.logits.shape[-1]), state.logits)
    for step in count():
        processed = sampling.against_repetition(state.logits + banned, [text.held for text in live], settings)
        uniforms, stages = None, dict[str, Tensor]()
        if settings.temperature == 0:
            ids = processed.argmax(-1)
        else:
            uniforms = torch.tensor([text.random.random() for text in live if text.random], dtype=torch.float64)
            probabilities = sampling.sampling_probabilities(processed, settings, stages if observe else None)
            ids = sampling.draw(probabilities, uniforms)
        if step < len(prefix):
            ids = torch.full_like(ids, prefix[step])
        if observe is not None:
            if uniforms is None:
                probabilities = sampling.sampling_probabilities(processed, settings)
            observe(DecodingStages(state.logits, processed, stages, probabilities, uniforms=uniforms, token_ids=ids))
        going = []
        scores = sampling.log_probabilities(state.logits, ids).tolist()
        for place, (text, token, score) in enumerate(zip(live, ids.tolist(), scores, strict=True)):
            text.new.append(token)
            text.held.append(token)
            yield NewToken(text.number, token, score)
            if not (token in roles.ends or len(text.new) == state.limits[place] or (ends and ends(text.new))):
                going.append(place)
        if not going:
            return
        if len(going) < len(live):
            going = [going[number] for number in least_moves(going)]
            state.select(going)
            live, ids = [live[place] for place in going], ids[going]
        state.read(ids)


@dataclass(eq=False)
class _Text:
    """In the making: all tokens that it is not to repeat, its own random numbers, and its new tokens."""

    number: int
    held: list[int]
    random: np.random.Generator | None
    new: list[int] = field(default_factory=list)


def random_numbers(settings: GenerateSection, prompt: Sequence[int], sample: int) -> np.random.Generator | None:
    """What a text is drawn with, by the seed, the prompt and the number of the sample. None: greedy."""
    checksum = zlib.crc32(np.asarray(prompt, dtype="<i8").tobytes())
    return generator(settings.seed, SAMPLES, checksum, sample) if settings.temperature > 0 else None


def collect(tokens: Iterable[NewToken], number_of_texts: int) -> list[Continuation]:
    """The whole texts, in the order of their numbers."""
    texts: list[list[NewToken]] = [[] for _ in range(number_of_texts)]
    for token in tokens:
        texts[token.row].append(token)
    return [Continuation(tuple(t.token_id for t in text), tuple(t.log_probability for t in text)) for text in texts]


def finish_of(token_ids: Sequence[int], roles: TokenRoles, max_new_tokens: int, *, stopped: bool = False) -> Finish:
    """Why a text ended, told by its tokens and by whether a stop text appeared."""
    if stopped:
        return "stop"
    if token_ids and token_ids[-1] in roles.ends:
        return "end"
    return "length" if len(token_ids) == max_new_tokens else "context"
