"""Qwen3 (Yang et al. 2025): Llama with normalised queries and keys, and windows in some layers."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.interop.layouts.qwen2 import KV_HEADS, WITHOUT_EFFECT, read_window, write_window
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_HEAD_DIM = 128
"""The head size of a file that says none."""


def _read(config: CheckpointConfig) -> ModelSection:
    """Windows must be those of all layers or of none."""
    section = llama_family.read(config, KV_HEADS, _HEAD_DIM)
    section = replace(
        section,
        attention_bias=config.flag("attention_bias", False),
        query_key_norm=True,
        sliding_window=read_window(config, section.num_layers),
    )
    config.finish(WITHOUT_EFFECT)
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        **llama_family.write(section, roles, "qwen3", "Qwen3ForCausalLM"),
        **write_window(section),
        "attention_bias": section.attention_bias,
    }


def _check(section: ModelSection) -> None:
    require(section, "Qwen3 is a decoder", architecture="decoder")
    llama_family.check(section, "Qwen3", own=("query_key_norm", "sliding_window"))
    require(section, "Qwen3 normalises queries and keys", query_key_norm=True)
    llama_family.check_alike_biases(section, "Qwen3")
    require(section, "Qwen3 has no biases in the feed-forward", feed_forward_bias=False)


LAYOUT = llama_family.layout("qwen3", _read, _write)
