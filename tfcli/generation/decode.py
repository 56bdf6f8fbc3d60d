"""The decode loop: greedy decoding and sampling, token by token, until the end token or another stopping criterion."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
from torch import Tensor

from tfcli.data.draws import SAMPLES, generator
from tfcli.generation.caches import least_moves
from tfcli.generation.reader import Reader, continued, prefill
from tfcli.generation.repetition import against_repetition
from tfcli.generation.sampling import draw, log_probabilities, never_generated, ruled_out, sampling_probabilities
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Finish
from tfcli.records.roles import TokenRoles

StoppingCriterion = Callable[[Sequence[int]], bool]
"""Asked with the new tokens of a text after every one of them, whether the text ends there."""


@dataclass(frozen=True, eq=False)
class DecodingStages:
    """One step of the decode loop, from logits to tokens: what a trace and `explain decoding` are made from.

    `logits` are the model's own; `processed` are without what is never generated, and after the logits processors
    against repetition; `filtered` are those after each of `FILTERS` (greedy: empty). `probabilities` are those of the
    draw, which takes `token_ids` by the random numbers `uniforms` (greedy: None).

    Shape:
        logits, processed, each of filtered, probabilities: (R, Vocab); uniforms, token_ids: (R,)
    """

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
    *,
    prefix: Sequence[int] = (),
    ends: StoppingCriterion | None = None,
    observe: Observe | None = None,
) -> Iterator[NewToken]:
    """As `decode`: continue or translate prompts, `num_samples` times each. They are read before this returns.

    Args:
        prompts: of a decoder with the token that texts begin with; of an encoder-decoder the bare sources.

    Raises:
        UsageError: a prompt does not fit the context.
    """
    state = prefill(model, prompts, roles, settings, rows=len(prompts) * settings.num_samples)
    return decode(state, roles, settings, texts=prompts, prefix=prefix, ends=ends, observe=observe)


@torch.inference_mode()
def decode(
    state: Reader,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Sequence[Sequence[int]],
    prefix: Sequence[int] = (),
    ends: StoppingCriterion | None = None,
    observe: Observe | None = None,
) -> Iterator[NewToken]:
    """Extend every row of a state `num_samples` times until all texts end; those that have ended leave the batch.

    Text number `row · num_samples + sample` continues that row. What `never_generated` names is never chosen. The
    log-probability is the model's own all the same: before they are ruled out, before temperature and filters.

    Args:
        texts: the prompt or source of each row: with the seed and the number of the sample all that the draws depend
            on. A continuation does not repeat its prompt where `settings` are against it; a translation may.
        prefix: the first new tokens of every text, whatever the model predicts.
        observe: is given the stages of every step.
    """
    copies = settings.num_samples
    state.select([row for row in range(len(texts)) for _ in range(copies)])
    live = [
        _Text(row * copies + sample, list(before), random_numbers(settings, text, sample))
        for row, (text, before) in enumerate(zip(texts, continued(state.model, texts, roles), strict=True))
        for sample in range(copies)
    ]
    banned = ruled_out(never_generated(roles, state.logits.shape[-1]), state.logits)
    for step in count():
        processed = against_repetition(state.logits + banned, [text.held for text in live], settings)
        uniforms, stages = None, dict[str, Tensor]()
        if settings.temperature == 0:
            ids = processed.argmax(-1)
        else:
            uniforms = torch.tensor([text.random.random() for text in live if text.random], dtype=torch.float64)
            probabilities = sampling_probabilities(processed, settings, stages if observe else None)
            ids = draw(probabilities, uniforms)
        if step < len(prefix):
            ids = torch.full_like(ids, prefix[step])
        if observe is not None:
            if uniforms is None:
                probabilities = sampling_probabilities(processed, settings)
            observe(DecodingStages(state.logits, processed, stages, probabilities, uniforms, ids))
        going = []
        scores = log_probabilities(state.logits, ids).tolist()
        for place, (text, token, score) in enumerate(zip(live, ids.tolist(), scores, strict=True)):
            text.new.append(token)
            text.held.append(token)
            yield NewToken(text.number, token, score)
            is_full = len(text.new) == state.limits[place]
            if token not in roles.ends and not is_full and not (ends is not None and ends(text.new)):
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
    """A text in the making: all tokens that it is not to repeat, its own random numbers, and its new tokens."""

    number: int
    held: list[int]
    random: np.random.Generator | None
    new: list[int] = field(default_factory=list)


def random_numbers(settings: GenerateSection, prompt: Sequence[int], sample: int) -> np.random.Generator | None:
    """What a text is drawn with: it depends on the seed, the prompt and the number of the sample. None: greedy."""
    checksum = zlib.crc32(np.asarray(prompt, dtype="<i8").tobytes())
    return generator(settings.seed, SAMPLES, checksum, sample) if settings.temperature > 0 else None


def collect(tokens: Iterable[NewToken], number_of_texts: int) -> list[Continuation]:
    """The whole texts, in the order of their numbers."""
    ids: list[list[int]] = [[] for _ in range(number_of_texts)]
    scores: list[list[float]] = [[] for _ in range(number_of_texts)]
    for token in tokens:
        ids[token.row].append(token.token_id)
        scores[token.row].append(token.log_probability)
    return [Continuation(tuple(row), tuple(each)) for row, each in zip(ids, scores, strict=True)]


def finish_of(token_ids: Sequence[int], roles: TokenRoles, max_new_tokens: int, *, stopped: bool = False) -> Finish:
    """Why a text ended, told by its tokens and by whether a stop text appeared."""
    if stopped:
        return "stop"
    if token_ids and token_ids[-1] in roles.ends:
        return "end"
    return "length" if len(token_ids) == max_new_tokens else "context"
