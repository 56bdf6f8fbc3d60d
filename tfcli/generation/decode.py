"""Token by token: each is chosen from the model's prediction and read in its turn, until the end token."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from tfcli.generation.reader import Reader, read_prompt, read_sources
from tfcli.generation.sampling import log_probabilities, never_generated, rule_out, sample
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles

Finish = Literal["end", "length", "context"]
"""Why a text stopped: the end token came, max_new_tokens was reached, or the context is full."""


@dataclass(frozen=True)
class NewToken:
    """The next token of text number `row`, with ln p (nats) under the model itself."""

    row: int
    token_id: int
    log_probability: float


@dataclass(frozen=True)
class Continuation:
    """New tokens, the end token included where it came, and the sum of their log-probabilities (nats)."""

    token_ids: tuple[int, ...]
    score: float


def continuations(
    model: Decoder, prompt_ids: Sequence[int], roles: TokenRoles, settings: GenerateSection
) -> Iterator[NewToken]:
    """Continue a prompt `num_samples` times, side by side. It is read once, before this returns.

    Raises:
        UsageError: the prompt leaves no room for a new token.
    """
    rows = settings.num_samples
    reader = read_prompt(model, prompt_ids, rows=rows, max_new_tokens=settings.max_new_tokens)
    return decode(reader, roles, settings, copies=rows)


def translations(
    model: EncoderDecoder, source_ids: Sequence[int], roles: TokenRoles, settings: GenerateSection
) -> Iterator[NewToken]:
    """Translate a source `num_samples` times, side by side. It is encoded once, before this returns.

    Raises:
        UsageError: the source is longer than the context.
    """
    rows = settings.num_samples
    reader = read_sources(model, [source_ids], roles, rows=rows, max_new_tokens=settings.max_new_tokens)
    return decode(reader, roles, settings, copies=rows)


@torch.inference_mode()
def decode(reader: Reader, roles: TokenRoles, settings: GenerateSection, *, copies: int = 1) -> Iterator[NewToken]:
    """Extend every row of a reader until it ends; rows that have ended leave the batch.

    Pad, bos, mask and unk are never chosen. The log-probability is the model's own all the same: before they
    are ruled out, before temperature and filters. The same seed gives the same tokens.

    Args:
        copies: texts to be made of each row.
    """
    generator = torch.Generator(reader.logits.device).manual_seed(settings.seed)
    banned = never_generated(roles, reader.logits.shape[-1])
    if copies > 1:
        reader.select([row for row in range(len(reader.logits)) for _ in range(copies)])
    rows = list(range(len(reader.logits)))
    for last in reversed(range(reader.limit)):
        ids = sample(rule_out(reader.logits, banned), settings, generator)
        tokens = ids.tolist()
        for row, token, score in zip(rows, tokens, log_probabilities(reader.logits, ids).tolist(), strict=True):
            yield NewToken(row, token, score)
        going = [place for place, token in enumerate(tokens) if token != roles.eos]
        if not going or last == 0:
            return
        if len(going) < len(rows):
            reader.select(going)
            rows, ids = [rows[place] for place in going], ids[going]
        reader.read(ids)


def collect(tokens: Iterable[NewToken], rows: int) -> list[Continuation]:
    """The whole texts, in the order of their rows."""
    ids: list[list[int]] = [[] for _ in range(rows)]
    scores = [0.0] * rows
    for token in tokens:
        ids[token.row].append(token.token_id)
        scores[token.row] += token.log_probability
    return [Continuation(tuple(row), score) for row, score in zip(ids, scores, strict=True)]


def finish_of(token_ids: Sequence[int], roles: TokenRoles, max_new_tokens: int) -> Finish:
    """Why a text stopped, told by its tokens."""
    if token_ids[-1] == roles.eos:
        return "end"
    return "length" if len(token_ids) == max_new_tokens else "context"
