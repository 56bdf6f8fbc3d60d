"""The first GPT (Radford et al. 2018): learned positions, norms after the sublayers, biases everywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import gpt2
from tfcli.interop.layouts.parts import written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
_WRITTEN: dict[Activation, str] = {"gelu_tanh": "gelu", "relu": "relu", "silu": "silu"}
_WORDS = "transformer.tokens_embed.weight"
_WITHOUT_EFFECT = (
    *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"),
    # Written by old versions of the library, read by none.
    *("n_special", "predict_special_tokens", "output_past"),
)


def _read(config: CheckpointConfig) -> ModelSection:
    d_model, positions = config.integer("n_embd", 768), config.integer("n_positions", 512)
    config.fixed("n_ctx", positions, reason=f"n_positions = {positions} is another context")
    section = replace(
        PLAIN,
        architecture="decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=positions,
        d_model=d_model,
        num_layers=config.integer("n_layer", 12),
        num_heads=config.integer("n_head", 12),
        d_ff=4 * d_model,
        positions="learned",
        norm="layernorm",
        norm_bias=True,
        norm_placement="post",
        norm_eps=config.number("layer_norm_epsilon", 1e-5),
        attention_bias=True,
        attention_output_bias=True,
        activation=config.choice("afn", _ACTIVATIONS, "gelu"),
        feed_forward_bias=True,
        tie_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.number("resid_pdrop", 0.1),
        embedding_dropout=config.number("embd_pdrop", 0.1),
        attention_dropout=config.number("attn_pdrop", 0.1),
        initialization="bert",
        init_std=config.number("initializer_range", 0.02),
    )
    config.finish(_WITHOUT_EFFECT)
    return section


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    return gpt2.tensors(section, words="tokens_embed", positions="positions_embed")


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {"lm_head.weight": _WORDS} if section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        "model_type": "openai-gpt",
        "architectures": ["OpenAIGPTLMHeadModel"],
        "vocab_size": section.vocab_size,
        "n_positions": section.max_seq_len,
        "n_embd": section.d_model,
        "n_layer": section.num_layers,
        "n_head": section.num_heads,
        "afn": _WRITTEN[section.activation],
        "resid_pdrop": section.dropout,
        "embd_pdrop": section.embedding_dropout_rate,
        "attn_pdrop": section.attention_dropout_rate,
        "layer_norm_epsilon": section.norm_eps,
        "initializer_range": section.init_std,
        "tie_word_embeddings": section.tie_embeddings,
        **written_tokens(roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "the first GPT is a decoder", architecture="decoder")
    require(section, "the first GPT learns its positions", positions="learned")
    require(section, "the first GPT has LayerNorm", norm="layernorm")
    require(section, "the first GPT normalises after every sublayer", norm_placement="post")
    require(section, "the first GPT's feed-forward is 4 d_model wide", inner_size=4 * section.d_model)
    require(section, "the first GPT knows no such feed-forward", activation=tuple(_WRITTEN))
    check_plain(section, "the first GPT")


LAYOUT = Layout(
    name="openai-gpt",
    model_types=("openai-gpt",),
    prefix="transformer.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    constants=(r"transformer\.h\.\d+\.attn\.bias", r"transformer\.position_ids"),
    heads=(r"transformer\.(score|classifier|multiple_choice_head)\..*",),
)
