"""Roles of special tokens: begin, end, padding, mask, separator; which tokens of a vocabulary play them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfcli.errors import UsageError


@dataclass(frozen=True)
class TokenRoles:
    """Token ids; None where a tokenizer has no such token (byte-level ones need no unknown)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    pad: int
    bos: int
    eos: int
    mask: int | None = None
    unk: int | None = None
    known: int | None = None  # ids of the tokenizer, which a loaded run has it from, where the model has more rows
    missing: tuple[int, ...] = ()  # ids below that have no token either
    suppressed: tuple[int, ...] = ()  # ids that an imported checkpoint itself rules out in generation
    source_start: tuple[int, ...] = ()  # of a pair: nothing here, ``<s>`` in BART; it always ends with eos
    target_start: tuple[int, ...] | None = None  # ``</s> <s>`` in BART, the pad token in T5 and Marian; None: bos
    # Of a decoder's or an encoder's text; where it is eos, the end of a document begins the next one. None: bos.
    text_start: tuple[int, ...] | None = None
    more_ends: tuple[int, ...] = ()  # further tokens that end a text, beside eos: ``<|eot_id|>`` in Llama 3
    endless: bool = False  # whether no token ends a text; pad, bos and eos then fill up batches, masked

    def ids(self) -> list[int]:
        """The ids of all the roles that there are, and of what else begins or ends a text."""
        fillers = () if self.endless else (self.pad, self.bos, self.eos)
        roles = (*fillers, self.mask, self.unk, *(self.text_start or ()), *self.more_ends)
        return list(dict.fromkeys(token for token in roles if token is not None))

    @property
    def target_prefix(self) -> tuple[int, ...]:
        """The tokens before a target's first word."""
        return (self.bos,) if self.target_start is None else self.target_start

    @property
    def text_prefix(self) -> tuple[int, ...]:
        """The tokens before the first word of a decoder's or an encoder's text."""
        return (self.bos,) if self.text_start is None else self.text_start

    @property
    def is_shared(self) -> bool:
        """Whether one token stands between two documents: the end of the first, and the beginning of the second."""
        return self.text_start == self.end != ()

    def stored_start(self, side: str = "") -> tuple[int, ...]:
        """What a prepared dataset has before each document of a side: "source", "target", or "" for text."""
        text = () if self.is_shared else self.text_prefix
        return {"source": self.source_start, "target": self.target_prefix}.get(side, text)

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text, whichever comes first."""
        return frozenset((*self.end, *self.more_ends))

    @property
    def end(self) -> tuple[int, ...]:
        """What is put behind a text."""
        return () if self.endless else (self.eos,)

    def text(self, ids: Sequence[int]) -> list[int]:
        """A document as a decoder or an encoder reads it: begun as it was in training, and ended."""
        return [*self.text_prefix, *ids, *self.end]

    def prompt(self, ids: Sequence[int]) -> list[int]:
        """What a decoder goes on from. Where nothing begins a text, an empty prompt is the end of another one."""
        return [*self.text_prefix, *ids] or [*self.end]

    def without_token(self, rows: int) -> list[int]:
        """The ids of a model of so many rows that no token has."""
        return [*self.missing, *range(rows if self.known is None else self.known, rows)]

    def source(self, ids: Sequence[int]) -> list[int]:
        """A text as the encoder of an encoder-decoder reads it: begun as it was in training, and ended."""
        return [*self.source_start, *ids, *self.end]


PAD, BOS, EOS, MASK, UNK = "<pad>", "<s>", "</s>", "<mask>", "<unk>"
"""Special tokens of every tokenizer that is trained here; byte-level bpe spells any text and needs no unknown."""

# Our own names first, then BERT's, then those of GPT-2, Gemma and Llama.
ROLE_NAMES = {
    "pad": (PAD, "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"),
    "bos": (BOS, "[CLS]", "[BOS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>"),
    "eos": (EOS, "[SEP]", "[EOS]", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>"),
    "mask": (MASK, "[MASK]", "<|mask|>"),
    "unk": (UNK, "[UNK]", "<|unk|>"),
}
MASK_NAMES = ROLE_NAMES["mask"]


def find_roles(
    token_to_id: Callable[[str], int | None], where: str, known: Mapping[str, int] = {}, *, may_be_endless: bool = False
) -> TokenRoles:
    """Find the special tokens of a vocabulary, except those whose ids are `known`. A `UsageError` where no token can
    end a text, and it may not be endless, names what was looked for. Where no token begins a text, the padding does it
    (as T5 and Marian start their decoder), else the token that ends one (as in GPT-2): then one of them stands between
    two documents. Where there is no padding, the token that ends a text fills up batches."""

    def first(role: str) -> int | None:
        if role in known:
            return known[role]
        return next((found for name in ROLE_NAMES[role] if (found := token_to_id(name)) is not None), None)

    pad, bos, eos, mask, unk = map(first, ROLE_NAMES)
    if eos is None and may_be_endless:
        filler = next((token for token in (pad, bos) if token is not None), 0)
        begins, start = (filler, ()) if bos is None else (bos, (bos,))
        return TokenRoles(filler, begins, filler, mask, unk, text_start=start, endless=True)
    if eos is None:
        problem = f"{where} has no special token that can serve as pad, bos or eos (no {', '.join(ROLE_NAMES['eos'])})"
        raise UsageError(problem, f"add {PAD}, {BOS} and {EOS} to it, or train one with 'tfcli tokenize train'")
    if bos is None:
        bos = eos if pad is None else pad
    return TokenRoles(eos if pad is None else pad, bos, eos, mask, unk, text_start=(eos,) if bos == eos else None)
