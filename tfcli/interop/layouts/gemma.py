"""Gemma (Gemma Team 2024), the first: Llama with scaled embeddings, and norms that keep their gain less 1."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Inexpressible, TensorMap, require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

_KV_HEADS, _HEAD_DIM = 16, 256
"""Of a file that says nothing of them."""
_ACTIVATIONS: dict[str, Activation] = {
    "gelu_pytorch_tanh": "geglu_tanh",
    "gelu": "geglu_tanh",  # the first files say so, and mean the tanh form
    "gelu_new": "geglu_tanh",
    "silu": "swiglu",
}


def _read(config: CheckpointConfig) -> ModelSection:
    config.fixed("use_bidirectional_attention", False, reason="tfcli reads Gemma as a decoder")
    config.fixed("hidden_activation", "gelu_pytorch_tanh", reason="hidden_act says it")
    section = replace(
        llama_family.read(config, _KV_HEADS, _HEAD_DIM),
        activation=config.choice("hidden_act", _ACTIVATIONS, "gelu_pytorch_tanh"),
        attention_bias=config.flag("attention_bias", False),
        tie_embeddings=config.flag("tie_word_embeddings", True),
        scale_embeddings=True,
    )
    config.finish(llama_family.WITHOUT_EFFECT)
    return section


def _tensors(section: ModelSection) -> list[TensorMap]:
    """Llama's; what may be absent there is a norm's gain."""
    maps = llama_family.tensors(section)
    return [one if one.absent is None else replace(one, shift=1.0, absent=(0.0, one.absent[1])) for one in maps]


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    require(section, "Gemma is a decoder", architecture="decoder")
    llama_family.check(section, "Gemma", own=("scale_embeddings",))
    llama_family.check_alike_biases(section, "Gemma")
    require(section, "Gemma has no biases in the feed-forward", feed_forward_bias=False)
    require(section, "Gemma's gate is GELU by tanh, or SiLU", activation=("geglu_tanh", "swiglu"))
    if section.embedding_scale == 1:
        raise Inexpressible("scale_embeddings", False, "Gemma scales embeddings")
    return {
        **llama_family.write(section, roles, "gemma", "GemmaForCausalLM"),
        "attention_bias": section.attention_bias,
    }


LAYOUT = replace(llama_family.layout("gemma", _read, _write), tensors=_tensors)
