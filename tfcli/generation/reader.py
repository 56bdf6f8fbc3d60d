"""Prefill and incremental decoding: texts that grow side by side, each token read by the model once.

Shape legend: R rows (texts), T new tokens a row, S source length, D model, Vocab.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.generation.caches import DecodingCache
from tfcli.generation.context import kept_columns, read_of, read_of_source, token_limits
from tfcli.generation.padding import padded
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.extend import extend_context, require_extendable
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import BeyondContext, GenerateSection
from tfcli.records.roles import TokenRoles


class Reader:
    """A decoder, or an encoder-decoder at its sources, in the middle of texts.

    Attributes:
        logits: of each row's next token, (R, Vocab), float32 at least.
        limits: how many tokens each row may get in all.
    """

    def __init__(
        self,
        model: Decoder | EncoderDecoder,
        start: Tensor,
        *,
        rows: int,
        limits: Sequence[int],
        beyond: BeyondContext = "stop",
        left: Tensor | None = None,
        memory: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> None:
        """Read the texts' start.

        Args:
            rows: the most texts there will be at once.
            left: how many tokens at the left of each start are padding; None: none.

        Shape:
            start: (R, T); left: (R,)
            memory: (R, S, D), the encoded sources; padding_mask: (R, S), or None where no source is padded

        Raises:
            UsageError: the model has no positions beyond its context, and is to go there.
        """
        if beyond == "extrapolate":
            require_extendable(model)
        self.model, self.limits = model, list(limits)
        self._memory = memory
        self._padding_mask = self._shown_mask = padding_mask
        context, columns = model.section.max_seq_len, start.shape[1] + max(self.limits)
        self._read = start if beyond == "slide" and columns > context else None
        self._context, self._extrapolates = context, beyond == "extrapolate"
        self._positions = context
        capacity = context if self._read is not None else columns
        sources = 0 if memory is None else len(memory)
        self._cache = DecodingCache(model, rows, capacity, start.shape[1], left, sources)
        self.logits = self._next(start)

    def read(self, ids: Tensor) -> None:
        """Add one token to each text.

        Shape:
            ids: (R,)
        """
        new = ids[:, None]
        if self._read is not None:
            self._read = torch.cat((self._read, new), dim=1)
            if self._cache.length == self._context:
                new = self._slid()
        self.logits = self._next(new)

    def select(self, rows: list[int]) -> None:
        """Text i becomes a copy of what text `rows[i]` was."""
        if rows == list(range(len(self.logits))):
            return
        self.limits = [self.limits[row] for row in rows]
        self._cache.select(rows)
        index = torch.tensor(rows, device=self.logits.device)
        self.logits = self.logits.index_select(0, index)
        if self._padding_mask is not None:
            self._shown_mask = self._padding_mask[self._cache.shown_sources]
        if self._read is not None:
            self._read = self._read.index_select(0, index)

    def _slid(self) -> Tensor:
        """The last part of what has been read, which is to be read again as the beginning of a text."""
        assert self._read is not None
        dropped = self._read.shape[1] - kept_columns(self._context)
        self._read = self._read[:, dropped:]
        if self._cache.left is not None:
            left = (self._cache.left - dropped).clamp(min=0)
            self._cache.left = left if left.any() else None
        self._cache.forget()
        return self._read

    def _next(self, ids: Tensor) -> Tensor:
        columns = self._cache.length + ids.shape[1]
        if self._extrapolates and columns > self._positions:
            self._positions = 2 * columns
            extend_context(self.model, self._positions)
        if isinstance(self.model, EncoderDecoder):
            assert self._memory is not None
            hidden = self.model.decode(ids, self._memory, self._shown_mask, cache=self._cache)
        else:
            left = self._cache.left
            unpadded = None if left is None else torch.arange(columns, device=left.device) >= left[:, None]
            hidden = self.model.hidden(ids, unpadded, cache=self._cache)
        logits = self.model.head(hidden[:, -1])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def continued(
    model: Transformer | None, prompts: Sequence[Sequence[int]], roles: TokenRoles
) -> Sequence[Sequence[int]]:
    """What new texts go on from: a decoder's prompts, without what tfcli put before them; for translations, which begin
    anew, nothing."""
    if isinstance(model, EncoderDecoder):
        return [()] * len(prompts)
    begun, empty = roles.text_prefix, roles.prompt(())
    own = [() if list(prompt) == empty else prompt for prompt in prompts]
    return [prompt[len(begun) :] if tuple(prompt[: len(begun)]) == begun else prompt for prompt in own]


def prefill(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    rows: int,
) -> Reader:
    """Read prompts, or sources at the start of their translations: `read_prompts` or `read_sources`.

    Args:
        prompts: of a decoder with the token that texts begin with; of an encoder-decoder the bare sources.
        rows: the most texts there will be at once.

    Raises:
        UsageError: a prompt does not fit the context; or the model has no positions beyond it, and is to go there.
    """
    limit, beyond = settings.max_new_tokens, settings.beyond_context
    if isinstance(model, EncoderDecoder):
        return read_sources(model, prompts, roles, rows=rows, max_new_tokens=limit, beyond=beyond)
    return read_prompts(model, prompts, rows=rows, max_new_tokens=limit, beyond=beyond)


@torch.inference_mode()
def read_prompts(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    *,
    rows: int,
    max_new_tokens: int,
    beyond: BeyondContext = "stop",
) -> Reader:
    """As `prefill`, a row a prompt. They may differ in length: shorter ones are padded at the left, where nothing
    looks, and count their positions from their own beginning."""
    read = [read_of(prompt, model.section, beyond) for prompt in prompts]
    lengths = [len(prompt) for prompt in read]
    limits, longest, left = token_limits(model.section, lengths, max_new_tokens, beyond), max(lengths), None
    if min(lengths) < longest:
        left = torch.tensor([longest - length for length in lengths], device=model.device)
    # What stands in the padding is never looked at: any token will do.
    start = torch.tensor([prompt[:1] * (longest - len(prompt)) + prompt for prompt in read], device=model.device)
    return Reader(model, start, rows=rows, limits=limits, beyond=beyond, left=left)


@torch.inference_mode()
def read_sources(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    *,
    rows: int,
    max_new_tokens: int,
    beyond: BeyondContext = "stop",
) -> Reader:
    """As `prefill`, a row a source, which is read as ``ids </s>``."""
    framed = [read_of_source(source, model.section, roles) for source in sources]
    ids, mask = padded(framed, roles.pad, model.device)
    memory, target = model.encode(ids, mask), roles.target_prefix
    limits = token_limits(model.section, [len(target)] * len(sources), max_new_tokens, beyond)
    start = torch.tensor([target] * len(sources), dtype=torch.long, device=model.device)
    return Reader(model, start, rows=rows, limits=limits, beyond=beyond, memory=memory, padding_mask=mask)
