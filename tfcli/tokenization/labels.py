"""What to call a token in a table: the text it stands for, safe to print."""

from collections.abc import Callable
from functools import cache


def escape(text: str) -> str:
    r"""Show what cannot be printed as Python would write it: a line end as ``\n``, a NUL as ``\x00``.

    Bytes that are no whole character (decoded with ``surrogateescape``) become ``⟨E2⟩``.
    """
    return "".join(map(_escape_character, text))


def byte_level_label(token: str) -> str:
    r"""The label of a byte-level token, whose every character stands for one byte.

    >>> byte_level_label("Ġbank"), byte_level_label("Ċ"), byte_level_label("ĠâĤ")
    (' bank', '\\n', ' ⟨E2⟩⟨82⟩')
    """
    table = _byte_of_character()
    if not all(character in table for character in token):
        return escape(token)
    return escape(bytes(table[character] for character in token).decode("utf-8", "surrogateescape"))


def metaspace_label(token: str) -> str:
    """The label of a token that spells the space as ▁."""
    return escape(token.replace("▁", " "))


def labeller(pipeline: str) -> Callable[[str], str]:
    """Choose how to label a token, from the pipeline's serialised form."""
    if '"ByteLevel"' in pipeline:
        return byte_level_label
    return metaspace_label if "▁" in pipeline else escape


def _escape_character(character: str) -> str:
    if character == " " or character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        return f"⟨{ord(character) - 0xDC00:02X}⟩"
    return character.encode("unicode_escape").decode("ascii")


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and following."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
