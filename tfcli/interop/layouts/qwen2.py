"""Qwen2 (Yang et al. 2024): Llama with biases for queries, keys and values alone, and windows in some layers."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

WITHOUT_EFFECT = (*llama_family.WITHOUT_EFFECT, "max_window_layers", "sliding_window")
"""A window's settings say nothing where `use_sliding_window` is off."""

KV_HEADS = 32
"""Heads of keys and values of a file that says nothing of them."""


def _read(config: CheckpointConfig) -> ModelSection:
    """Windows must be those of all layers or of none."""
    config.fixed("use_mrope", False, reason="tfcli numbers tokens along one axis")
    section = llama_family.read(config, KV_HEADS)
    section = replace(
        section,
        attention_bias=True,
        attention_output_bias=False,
        sliding_window=read_window(config, section.num_layers),
    )
    config.finish(WITHOUT_EFFECT)
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {**llama_family.write(section, roles, "qwen2", "Qwen2ForCausalLM"), **write_window(section)}


def _check(section: ModelSection) -> None:
    require(section, "Qwen2 is a decoder", architecture="decoder")
    llama_family.check(section, "Qwen2", own=("sliding_window",))
    require(section, "Qwen2 has biases for queries, keys and values", attention_bias=True)
    require(section, "Qwen2 has no bias in the output projection", attention_output_bias=False)
    require(section, "Qwen2 has no biases in the feed-forward", feed_forward_bias=False)


def read_window(config: CheckpointConfig, num_layers: int) -> int | None:
    """The window of all layers.

    Raises:
        UsageError: some layers have one and others none.
    """
    window, kind = None, "full_attention"
    if config.flag("use_sliding_window", False):
        full_layers = config.number("max_window_layers", 28)
        if 0 < full_layers < num_layers:
            config.fixed("max_window_layers", reason="tfcli's layers are all alike, with a window or without")
        if full_layers == 0:
            window, kind = config.integer("sliding_window"), "sliding_attention"
    config.fixed("layer_types", [kind] * num_layers, reason=f"every layer must be of {kind}, as the windows say")
    return window


def write_window(section: ModelSection) -> dict[str, Any]:
    """The settings of a window in all layers, or in none."""
    windowed = section.sliding_window is not None
    return {
        "layer_types": ["sliding_attention" if windowed else "full_attention"] * section.num_layers,
        "max_window_layers": 0 if windowed else section.num_layers,
        "sliding_window": section.sliding_window,
        "use_sliding_window": windowed,
    }


LAYOUT = llama_family.layout("qwen2", _read, _write)
