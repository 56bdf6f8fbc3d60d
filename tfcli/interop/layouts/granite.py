"""Granite (Granite Team 2024): Llama with factors for embeddings, scores, sublayers and logits."""

import math
from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_TOLERANCE = 1e-6
"""Relative: a file may write √d_model with few digits."""


def _read(config: CheckpointConfig) -> ModelSection:
    """Each factor must be 1 or the root of a size that tfcli has."""
    config.fixed("residual_multiplier", 1, reason="tfcli adds what a sublayer gives as it is")
    section = llama_family.read(config)
    root = section.d_model**0.5
    section = replace(
        section,
        attention_bias=config.flag("attention_bias", False),
        feed_forward_bias=config.flag("mlp_bias", False),
        scale_embeddings=_is_scaled(config, "embedding_multiplier", root, "√hidden_size"),
        attention_score="scaled_dot"
        if _is_scaled(config, "attention_multiplier", section.size_per_head**-0.5, "1/√head_dim")
        else "dot",
        scale_logits=_is_scaled(config, "logits_scaling", root, "√hidden_size"),
    )
    config.finish(llama_family.WITHOUT_EFFECT)
    return section


def _is_scaled(config: CheckpointConfig, name: str, root: float, meaning: str) -> bool:
    """Whether a factor is this root rather than 1."""
    scaled = math.isclose(config.number(name, 1.0), root, rel_tol=_TOLERANCE)
    if not scaled:
        config.fixed(name, 1, reason=f"tfcli's factor is 1 or {meaning} = {root:.6g}")
    return scaled


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        **llama_family.write(section, roles, "granite", "GraniteForCausalLM"),
        "attention_bias": section.attention_bias,
        "attention_multiplier": section.size_per_head**-0.5 if section.attention_score == "scaled_dot" else 1.0,
        "embedding_multiplier": section.embedding_scale,
        "logits_scaling": section.d_model**0.5 if section.scale_logits else 1.0,
        "mlp_bias": section.feed_forward_bias,
        "residual_multiplier": 1.0,
    }


def _check(section: ModelSection) -> None:
    require(section, "Granite is a decoder", architecture="decoder")
    llama_family.check(section, "Granite", own=("scale_embeddings", "attention_score", "scale_logits"))
    require(section, "Granite's scores are dot products", attention_score=("scaled_dot", "dot"))
    llama_family.check_alike_biases(section, "Granite")


LAYOUT = llama_family.layout("granite", _read, _write)
