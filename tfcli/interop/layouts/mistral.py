"""Mistral (Jiang et al. 2023): Llama without biases, and with a sliding window."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_KV_HEADS = 8
"""Heads of keys and values of a file that says nothing of them."""


def _read(config: CheckpointConfig) -> ModelSection:
    """A window of null says that there is none, as in the releases from 0.2 on; no word of it means the first's."""
    none = config.says("sliding_window") and not config.has("sliding_window")
    window = None if none else config.integer("sliding_window", 4096)
    section = replace(llama_family.read(config, _KV_HEADS), sliding_window=window)
    config.finish(llama_family.WITHOUT_EFFECT)
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        **llama_family.write(section, roles, "mistral", "MistralForCausalLM"),
        "sliding_window": section.sliding_window,
    }


def _check(section: ModelSection) -> None:
    require(section, "Mistral is a decoder", architecture="decoder")
    llama_family.check(section, "Mistral", own=("sliding_window",))
    require(section, "Mistral has no biases", attention_bias=False, attention_output_bias=(None, False))
    require(section, "Mistral has no biases", feed_forward_bias=False)


LAYOUT = llama_family.layout("mistral", _read, _write)
