"""What BART, Marian and T5 share as encoder-decoders: second names of settings, and what a target begins with."""

from collections.abc import Mapping
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Inexpressible
from tfcli.interop.layouts import parts
from tfcli.records.roles import TokenRoles

_START = ("decoder_start_token_id", "forced_bos_token_id")
"""Settings for the tokens that a target begins with."""


def check_both_sides(config: CheckpointConfig, aliases: Mapping[str, str]) -> None:
    """Refuse half a model, or one that contradicts itself.

    Args:
        aliases: second names of settings, and the settings. The library would let the second name win.

    Raises:
        UsageError: names the setting.
    """
    for alias, name in aliases.items():
        value = config.integer(name)
        config.fixed(alias, value, reason=f"{name}, another name of the same, is {value}")
    config.fixed("is_encoder_decoder", True, reason="tfcli reads both sides of this family")
    config.fixed("is_decoder", False, reason="tfcli reads both sides of this family")


def written_tokens(roles: TokenRoles) -> dict[str, Any]:
    """The ids of special tokens, and of those that a target begins with.

    Raises:
        Inexpressible: a target begins with more tokens than there are settings for.
    """
    if len(roles.target_prefix) > len(_START):
        raise Inexpressible("target_start", roles.target_prefix, "config.json has settings for two tokens")
    return {**parts.written_tokens(roles), **dict(zip(_START, roles.target_prefix, strict=False))}
