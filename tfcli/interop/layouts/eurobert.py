"""EuroBERT (Boizard et al. 2025): an encoder of Llama's layout with a masked-language-model head."""

from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import llama_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = (
    *llama_family.WITHOUT_EFFECT,
    # Spellings of tokens, and how a classifier reads the text.
    "bos_token", "eos_token", "pad_token", "mask_token", "classifier_pooling", "clf_pooling",
)  # fmt: skip


def _read(config: CheckpointConfig) -> ModelSection:
    """`mlp_bias` gives the head a bias too."""
    config.fixed("hidden_dropout", 0, reason="the family drops nothing but attention weights")
    bias = config.flag("mlp_bias", False)
    section = replace(
        llama_family.read(config),
        architecture="encoder",
        attention_bias=config.flag("attention_bias", False),
        feed_forward_bias=bias,
        head_bias=bias,
    )
    config.finish(_WITHOUT_EFFECT)
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    mask = {} if roles.mask is None else {"mask_token_id": roles.mask}
    return {
        **llama_family.write(section, roles, "eurobert", "EuroBertForMaskedLM"),
        **mask,
        "attention_bias": section.attention_bias,
        "mlp_bias": section.feed_forward_bias,
        "pretraining_tp": 1,
    }


def _check(section: ModelSection) -> None:
    require(section, "EuroBERT is an encoder", architecture="encoder")
    llama_family.check(section, "EuroBERT", own=("head_bias",))
    llama_family.check_alike_biases(section, "EuroBERT")
    require(section, "EuroBERT has biases in feed-forward and head, or in neither", head_bias=section.feed_forward_bias)
    llama_family.check_whole_heads(section, "EuroBERT")


LAYOUT = llama_family.layout("eurobert", _read, _write, heads=(r"(dense|classifier)\.(weight|bias)",))
