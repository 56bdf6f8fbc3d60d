"""The ids of the special tokens, by what they are for."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenRoles:
    """Token ids; None where a tokenizer has no such token (byte-level ones need no unknown)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    pad: int
    bos: int
    eos: int
    mask: int | None = None
    unk: int | None = None
    known: int | None = None
    """Ids that the tokenizer knows, where the model has more rows than that (published ones are padded to a round
    number). None: as many as there are rows."""
    source_start: tuple[int, ...] = ()
    """What a source begins with, in an encoder-decoder: nothing here, ``<s>`` in BART. It always ends with eos."""
    target_start: tuple[int, ...] | None = None
    """What a target begins with: BART has ``</s> <s>``, T5 and Marian the pad token. None: bos."""
    text_start: tuple[int, ...] | None = None
    """What a decoder's or an encoder's text begins with: nothing in GPT-2, ``<s>`` in Llama. None: bos."""
    more_ends: tuple[int, ...] = ()
    """Further tokens that end a text, beside eos: ``<|eot_id|>`` in Llama 3."""
    endless: bool = False
    """Whether no token ends a text, as in a vocabulary without special tokens. The ids of pad, bos and eos then fill up
    batches, masked; one that is an ordinary token stays that."""

    def ids(self) -> list[int]:
        """The ids of all the roles that there are."""
        if self.endless:
            return [token for token in (self.mask, self.unk) if token is not None]
        return [token for token in (self.pad, self.bos, self.eos, self.mask, self.unk) if token is not None]

    @property
    def target_prefix(self) -> tuple[int, ...]:
        """The tokens before a target's first word."""
        return (self.bos,) if self.target_start is None else self.target_start

    @property
    def text_prefix(self) -> tuple[int, ...]:
        """The tokens before the first word of a decoder's or an encoder's text."""
        return (self.bos,) if self.text_start is None else self.text_start

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text, whichever comes first."""
        return frozenset((*self.end, *self.more_ends))

    @property
    def end(self) -> tuple[int, ...]:
        """What is put behind a text."""
        return () if self.endless else (self.eos,)

    def source(self, ids: Sequence[int]) -> list[int]:
        """A text as the encoder of an encoder-decoder reads it: begun as it was in training, and ended."""
        return [*self.source_start, *ids, *self.end]
