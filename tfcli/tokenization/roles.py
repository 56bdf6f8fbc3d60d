"""Which special token serves as what, found by the tokens' names."""

from collections.abc import Callable, Mapping

from tfcli.errors import UsageError
from tfcli.recipe.tokenizer import OWN_SPECIAL_TOKENS
from tfcli.records.roles import TokenRoles

PAD, BOS, EOS, MASK, UNK = OWN_SPECIAL_TOKENS

# Our own names first, then BERT's, then those of GPT-2, Gemma and Llama.
PAD_NAMES = (PAD, "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>")
BOS_NAMES = (BOS, "[CLS]", "[BOS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>")
EOS_NAMES = (EOS, "[SEP]", "[EOS]", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>")
MASK_NAMES = (MASK, "[MASK]", "<|mask|>")
UNK_NAMES = (UNK, "[UNK]", "<|unk|>")


ROLE_NAMES = {"pad": PAD_NAMES, "bos": BOS_NAMES, "eos": EOS_NAMES, "mask": MASK_NAMES, "unk": UNK_NAMES}


def find_roles(
    token_to_id: Callable[[str], int | None],
    where: str,
    known: Mapping[str, int] | None = None,
    *,
    may_be_endless: bool = False,
) -> TokenRoles:
    """Find the special tokens of a vocabulary.

    Where no token begins a text, the padding does it (as T5 and Marian start their decoder), else the token
    that ends one (as in GPT-2): then one of them stands between two documents. Where there is no padding, the token
    that ends a text fills up batches.

    Args:
        token_to_id: the id of a token, or None.
        where: how to name the tokenizer in an error.
        known: ids of roles ("pad", "bos", "eos", "mask", "unk") that are told otherwise, and not looked for.
        may_be_endless: whether it will do without a token that ends a text.

    Raises:
        UsageError: no token can end a text, and it will not do without; names what was looked for.
    """

    def first(role: str) -> int | None:
        if known and role in known:
            return known[role]
        return next((found for name in ROLE_NAMES[role] if (found := token_to_id(name)) is not None), None)

    eos = first("eos")
    pad, bos = first("pad"), first("bos")
    if eos is None and may_be_endless:
        filler = next((token for token in (pad, bos) if token is not None), 0)
        begins = filler if bos is None else bos
        start = () if bos is None else (bos,)
        return TokenRoles(filler, begins, filler, first("mask"), first("unk"), text_start=start, endless=True)
    if eos is None:
        raise UsageError(
            f"{where} has no special token that can serve as pad, bos or eos (no {', '.join(EOS_NAMES)})",
            f"add {PAD}, {BOS} and {EOS} to it, or train one with 'tfcli tokenize train'",
        )
    if bos is None:
        bos = eos if pad is None else pad
    return TokenRoles(
        pad=eos if pad is None else pad,
        bos=bos,
        eos=eos,
        mask=first("mask"),
        unk=first("unk"),
        text_start=(eos,) if bos == eos else None,
    )
