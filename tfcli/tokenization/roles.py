"""Special tokens: which one pads, begins, ends, masks or stands for the unknown, found by their names."""

from collections.abc import Callable, Mapping

from tfcli.errors import UsageError
from tfcli.recipe.data import OWN_SPECIAL_TOKENS
from tfcli.records.roles import TokenRoles

PAD, BOS, EOS, MASK, UNK = OWN_SPECIAL_TOKENS

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
    token_to_id: Callable[[str], int | None],
    where: str,
    known: Mapping[str, int] | None = None,
    *,
    may_be_endless: bool = False,
) -> TokenRoles:
    """Find the special tokens of a vocabulary, except those whose ids are `known`.

    Where no token begins a text, the padding does it (as T5 and Marian start their decoder), else the token
    that ends one (as in GPT-2): then one of them stands between two documents. Where there is no padding, the token
    that ends a text fills up batches.

    Raises:
        UsageError: no token can end a text, and it may not be endless; names what was looked for.
    """

    def first(role: str) -> int | None:
        if known and role in known:
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
