"""The ids of the special tokens, by what they are for."""

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class TokenRoles:
    """Token ids; None where a tokenizer has no such token (byte-level ones need no unknown)."""

    pad: int
    bos: int
    eos: int
    mask: int | None = None
    unk: int | None = None

    def ids(self) -> list[int]:
        """The ids of all the roles that there are."""
        return [token for token in astuple(self) if token is not None]
