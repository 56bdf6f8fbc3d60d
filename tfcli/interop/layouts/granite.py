"""Granite (Granite Team 2024): Llama with factors for embeddings, scores, sublayers and logits."""

import math
from collections.abc import Mapping
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
    """A factor that is 1 or the root of a size is a setting of tfcli's too; `_factors` has the others."""
    config.number("residual_multiplier", 1.0)
    section = llama_family.read(config)
    root = section.d_model**0.5
    section = replace(
        section,
        attention_bias=config.flag("attention_bias", False),
        feed_forward_bias=config.flag("mlp_bias", False),
        scale_embeddings=_is(config.number("embedding_multiplier", 1.0), root),
        attention_score="scaled_dot"
        if _is(config.number("attention_multiplier", 1.0), section.size_per_head**-0.5)
        else "dot",
        scale_logits=_is(config.number("logits_scaling", 1.0), root),
    )
    if config.number("logits_scaling", 1.0) == 0:
        config.fixed("logits_scaling", reason="logits are divided by it")
    config.finish(llama_family.WITHOUT_EFFECT)
    return section


def _is(factor: float, root: float) -> bool:
    return math.isclose(factor, root, rel_tol=_TOLERANCE)


def _factors(values: Mapping[str, Any], section: ModelSection) -> dict[str, float]:
    """The factors that tfcli does not have: each can be multiplied into a matrix."""

    def said(name: str) -> float:
        return 1.0 if values.get(name) is None else values[name]

    wanted = {
        r"embedding\.weight": 1.0 if section.scale_embeddings else said("embedding_multiplier"),
        r".*\.attention\.query\..*": 1.0 if section.attention_score == "scaled_dot" else said("attention_multiplier"),
        r".*\.(attention|feed_forward)\.output\..*": said("residual_multiplier"),
        r"head\.weight": 1.0 if section.scale_logits else 1 / said("logits_scaling"),
    }
    return {pattern: factor for pattern, factor in wanted.items() if factor != 1}


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


LAYOUT = replace(llama_family.layout("granite", _read, _write), factors=_factors)
