"""Texts that grow token by token, side by side, each token read by the model once.

Shape legend: R rows (texts), T new tokens a row, S source length, D model, Vocab.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.caches import DecodingCache
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.records.roles import TokenRoles


class Reader:
    """A decoder, or an encoder-decoder at its sources, in the middle of texts.

    Attributes:
        logits: of each row's next token, (R, Vocab), float32 at least.
        limit: how many tokens a text may still get.
        model: what reads.
    """

    def __init__(
        self,
        model: Decoder | EncoderDecoder,
        start: Tensor,
        *,
        rows: int,
        limit: int,
        memory: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> None:
        """Read the texts' start.

        Args:
            rows: the most texts there will be at once.

        Shape:
            start: (R, T)
            memory: (R, S, D), the encoded sources; padding_mask: (R, S), or None where no source is padded
        """
        self.model, self.limit = model, limit
        self._memory, self._padding_mask = memory, padding_mask
        self._cache = DecodingCache(model, rows, start.shape[1] + limit)
        self.logits = self._next(start)

    def read(self, ids: Tensor) -> None:
        """Add one token to each text.

        Shape:
            ids: (R,)
        """
        self.logits = self._next(ids[:, None])

    def select(self, rows: list[int]) -> None:
        """Text i becomes a copy of what text `rows[i]` was."""
        self._cache.select(rows)
        index = torch.tensor(rows, device=self.logits.device)
        self.logits = self.logits.index_select(0, index)
        if self._padding_mask is not None:
            self._padding_mask = self._padding_mask.index_select(0, index)

    def _next(self, ids: Tensor) -> Tensor:
        if isinstance(self.model, EncoderDecoder):
            assert self._memory is not None
            hidden = self.model.decode(ids, self._memory, self._padding_mask, cache=self._cache)
        else:
            hidden = self.model.hidden(ids, cache=self._cache)
        logits = self.model.head(hidden[:, -1])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


@torch.inference_mode()
def read_prompt(model: Decoder, prompt_ids: Sequence[int], *, rows: int, max_new_tokens: int) -> Reader:
    """A reader behind a prompt, with one row. Prompt and new tokens together stay within the context.

    Raises:
        UsageError: the prompt leaves no room for a new token.
    """
    context = model.section.max_seq_len
    if len(prompt_ids) >= context:
        raise UsageError(
            f"The prompt has {len(prompt_ids)} tokens, the beginning-of-text token included, "
            f"and the model's context of {context} leaves no room for a new one",
            f"shorten it to {context - 1} tokens at most",
        )
    limit = min(max_new_tokens, context - len(prompt_ids))
    return Reader(model, _tensor([list(prompt_ids)], model), rows=rows, limit=limit)


@torch.inference_mode()
def read_sources(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    *,
    rows: int,
    max_new_tokens: int,
) -> Reader:
    """A reader at the start of the translations of `sources`, a row each. A source is read as ``ids </s>``.

    What a target begins with, ``<s>``, and the new tokens together stay within the context.

    Raises:
        UsageError: a source is longer than the context.
    """
    context = model.section.max_seq_len
    framed = [roles.source(source) for source in sources]
    longest = max(len(source) for source in framed)
    if longest > context:
        frame = len(roles.source(()))
        raise UsageError(
            f"The source has {longest} tokens, the end token included, and the model's context is {context}",
            f"shorten it to {context - frame} tokens at most",
        )
    padded = [source + [roles.pad] * (longest - len(source)) for source in framed]
    lengths = _tensor([[len(source)] for source in framed], model)
    is_padded = any(len(source) < longest for source in framed)
    # Told by length: a text may hold the id of padding as well.
    mask = torch.arange(longest, device=lengths.device) < lengths if is_padded else None
    memory = model.encode(_tensor(padded, model), mask)
    start = _tensor([list(roles.target_prefix)] * len(sources), model)
    limit = min(max_new_tokens, context - start.shape[1])
    return Reader(model, start, rows=rows, limit=limit, memory=memory, padding_mask=mask)


def _tensor(ids: list[list[int]], model: Decoder | EncoderDecoder) -> Tensor:
    return torch.tensor(ids, dtype=torch.long, device=model.device)
