"""Fingerprint of a tokenizer: vocabulary, merges or scores, and pipeline; not the bytes of a file."""

from typing import Any

from tfcli.files import digest
from tfcli.records.roles import TokenRoles

Framing = tuple[int | tuple[int, ...], ...]

# Truncation and padding are switched off on load, and tfcli places special tokens itself.
_WITHOUT_EFFECT = ("version", "truncation", "padding", "post_processor")


def fingerprint(state: dict[str, Any], framing: Framing | None = None) -> str:
    """16 hex digits of a tokenizer's serialised state, however the file was laid out.

    Args:
        framing: what it puts around texts, where this is not what the names of its special tokens say.
    """
    pipeline = _canonical({key: value for key, value in state.items() if key not in _WITHOUT_EFFECT})
    return digest(pipeline) if framing is None else digest(pipeline, framing)


def framing(roles: TokenRoles) -> Framing:
    """What a prepared dataset has around its texts: bos, eos, and how sources, targets and other texts begin; one thing
    more where they do not end."""
    before = roles.bos, roles.eos, roles.source_start, roles.target_prefix
    return before if roles.text_start is None else (*before, roles.text_start, *[()] * roles.endless)


def _canonical(value: Any) -> Any:
    """Leave out what is switched off: a new option of the library, off by default, then changes nothing."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items() if item is not None and item is not False}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value
