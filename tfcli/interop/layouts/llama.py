"""Llama (Touvron et al. 2023): rotary positions, RMSNorm before the sublayers, a gate in the feed-forward."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles


def _read(config: CheckpointConfig) -> ModelSection:
    """Biases are all or none, in attention and in the feed-forward each."""
    section = replace(
        llama_family.read(config),
        attention_bias=config.flag("attention_bias", False),
        feed_forward_bias=config.flag("mlp_bias", False),
    )
    config.finish(llama_family.WITHOUT_EFFECT)
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        **llama_family.write(section, roles, "llama", "LlamaForCausalLM"),
        "attention_bias": section.attention_bias,
        "mlp_bias": section.feed_forward_bias,
        "pretraining_tp": 1,
    }


def _check(section: ModelSection) -> None:
    require(section, "Llama is a decoder", architecture="decoder")
    llama_family.check(section, "Llama")
    llama_family.check_alike_biases(section, "Llama")
    llama_family.check_whole_heads(section, "Llama")


LAYOUT = llama_family.layout("llama", _read, _write)
