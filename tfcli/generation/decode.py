"""Token by token: each is chosen from the model's prediction and read in its turn, until the end token."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor

from tfcli.data.draws import SAMPLES, generator
from tfcli.generation.reader import Reader, continued, open_reader
from tfcli.generation.repetition import against_repetition
from tfcli.generation.rows import least_moves
from tfcli.generation.sampling import chances, draw, log_probabilities, never_generated, ruled_out
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Finish
from tfcli.records.roles import TokenRoles

Ends = Callable[[Sequence[int]], bool]
"""Asked with the new tokens of a text after every one of them, whether the text ends there."""


@dataclass(frozen=True)
class IdOption:
    """A token that could come next: its probability under the model itself, and its chance in the draw."""

    token_id: int
    probability: float
    chance: float


@dataclass(frozen=True)
class NewToken:
    """The next token of text number `row`, with ln p (nats) under the model itself, and the likeliest others."""

    row: int
    token_id: int
    log_probability: float
    options: tuple[IdOption, ...] = ()


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
    ends: Ends | None = None,
    options: int = 0,
) -> Iterator[NewToken]:
    """Continue or translate prompts `num_samples` times each, all side by side. They are read before this returns.

    Args:
        prompts: of a decoder with the token that texts begin with; of an encoder-decoder the bare sources.
        prefix: what every text begins with.

    Raises:
        UsageError: a prompt does not fit the context.
    """
    reader = open_reader(model, prompts, roles, settings, rows=len(prompts) * settings.num_samples)
    return decode(reader, roles, settings, texts=prompts, prefix=prefix, ends=ends, options=options)


@torch.inference_mode()
def decode(
    reader: Reader,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Sequence[Sequence[int]],
    prefix: Sequence[int] = (),
    ends: Ends | None = None,
    options: int = 0,
) -> Iterator[NewToken]:
    """Extend every row of a reader `num_samples` times until all texts end; those that have ended leave the batch.

    Text number `row · num_samples + sample` continues that row. What `never_generated` names is never chosen. The
    log-probability is the model's own all the same: before they are ruled out, before temperature and filters.

    Args:
        texts: the prompt or source of each row: with the seed and the number of the sample all that the draws depend
            on. A continuation does not repeat its prompt where `settings` are against it; a translation may.
        prefix: the first new tokens of every text, whatever the model predicts.
        options: how many of the likeliest tokens of each step to tell.
    """
    copies = settings.num_samples
    reader.select([row for row in range(len(texts)) for _ in range(copies)])
    live = [
        _Text(row * copies + sample, settings, text, sample, list(before))
        for row, (text, before) in enumerate(zip(texts, continued(reader.model, texts, roles), strict=True))
        for sample in range(copies)
    ]
    rows = reader.logits.shape[-1]
    banned, nameless = (
        ruled_out(ids, reader.logits) for ids in (never_generated(roles, rows), roles.without_token(rows))
    )
    for step in count():
        logits = against_repetition(reader.logits + banned, [text.held for text in live], settings)
        ids = _chosen(logits, live, settings)
        if step < len(prefix):
            ids = torch.full_like(ids, prefix[step])
        scores = log_probabilities(reader.logits, ids).tolist()
        told = _options(reader.logits, logits, nameless, ids, settings, options) if options else [()] * len(live)
        going = []
        for place, (text, token, score, others) in enumerate(zip(live, ids.tolist(), scores, told, strict=True)):
            text.new.append(token)
            text.held.append(token)
            yield NewToken(text.number, token, score, others)
            is_full = len(text.new) == reader.limits[place]
            if token not in roles.ends and not is_full and not (ends is not None and ends(text.new)):
                going.append(place)
        if not going:
            return
        if len(going) < len(live):
            going = [going[number] for number in least_moves(going)]
            reader.select(going)
            live, ids = [live[place] for place in going], ids[going]
        reader.read(ids)


class _Text:
    """A text in the making: its new tokens, all that it is not to repeat, and its own random numbers."""

    def __init__(
        self, number: int, settings: GenerateSection, prompt: Sequence[int], sample: int, held: list[int]
    ) -> None:
        self.number, self.held = number, held
        self.new: list[int] = []
        self.random = random_numbers(settings, prompt, sample)


def random_numbers(settings: GenerateSection, prompt: Sequence[int], sample: int) -> np.random.Generator | None:
    """What a text is drawn with: it depends on the seed, the prompt and the number of the sample. None: greedy."""
    checksum = zlib.crc32(np.asarray(prompt, dtype="<i8").tobytes())
    return generator(settings.seed, SAMPLES, checksum, sample) if settings.temperature > 0 else None


def _chosen(logits: Tensor, live: Sequence[_Text], settings: GenerateSection) -> Tensor:
    """The next token of each row.

    Shape:
        logits: (R, Vocab), without what may not be generated
        returns: (R,)
    """
    if settings.temperature == 0:
        return logits.argmax(-1)
    uniforms = torch.tensor([text.random.random() for text in live if text.random], dtype=torch.float64)
    return draw(chances(logits, settings), uniforms)


def _options(
    logits: Tensor, allowed: Tensor, nameless: Tensor, ids: Tensor, settings: GenerateSection, number: int
) -> list[tuple[IdOption, ...]]:
    """The `number` likeliest tokens of each row under the model itself; the chosen one in the last place if it is none
    of them. `nameless` rules out ids that no token has."""
    probabilities, in_draw = logits.softmax(-1), chances(allowed, settings)
    best = (logits + nameless).topk(min(number, int((nameless == 0).sum()))).indices
    missing = ~(best == ids[:, None]).any(-1)
    best[missing, -1] = ids[missing]
    found = zip(*(table.gather(-1, best).tolist() for table in (probabilities, in_draw)), strict=True)
    return [
        tuple(map(IdOption, tokens, shares, draws))
        for tokens, (shares, draws) in zip(best.tolist(), found, strict=True)
    ]


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
