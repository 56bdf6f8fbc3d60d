"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): a part of each head rotated, and the feed-forward
beside attention. Queries, keys and values lie side by side, a head after the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts.llama_family import read_rotation, write_rotation
from tfcli.interop.layouts.parts import affine, norm, written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_EMBEDDING, _HEAD = "gpt_neox.embed_in.weight", "embed_out.weight"
_TURNED = 0.25
"""Share of a head that is rotated, where the file does not say."""


def _read(config: CheckpointConfig) -> ModelSection:
    d_model, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    bias, dropout = config.flag("attention_bias", True), config.number("hidden_dropout", 0.0)
    section = replace(
        PLAIN,
        **read_rotation(config, ("rotary_emb_base", "rotary_pct"), _TURNED, d_model // heads),
        architecture="decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=d_model,
        num_layers=config.integer("num_hidden_layers"),
        num_heads=heads,
        d_ff=config.integer("intermediate_size"),
        norm="layernorm",
        norm_bias=True,
        norm_placement="pre",
        parallel_residual=config.flag("use_parallel_residual", True),
        norm_eps=config.number("layer_norm_eps", 1e-5),
        attention_bias=bias,
        attention_output_bias=bias,
        activation=config.choice("hidden_act", ACTIVATIONS, "gelu"),
        feed_forward_bias=True,
        tie_embeddings=config.flag("tie_word_embeddings", False),
        dropout=dropout,
        embedding_dropout=dropout,
        attention_dropout=config.number("attention_dropout", 0.0),
        initialization="bert",
        init_std=config.number("initializer_range", 0.02),
    )
    config.finish()
    return section


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    size, heads = section.d_model, section.num_heads
    maps = [TensorMap(_EMBEDDING, ("embedding.weight",)), *norm("gpt_neox.final_layer_norm", "stack.final_norm", size)]
    for i in range(section.num_layers):
        theirs, ours = f"gpt_neox.layers.{i}", f"stack.layers.{i}"
        joined = tuple(f"{ours}.attention.{name}" for name in ("query", "key", "value"))
        attention = [
            *affine(f"{theirs}.attention.query_key_value", *joined, size=3 * size, groups=heads),
            *affine(f"{theirs}.attention.dense", f"{ours}.attention.output", size=size),
        ]
        maps += [
            *norm(f"{theirs}.input_layernorm", f"{ours}.attention_residual.norm", size),
            *norm(f"{theirs}.post_attention_layernorm", f"{ours}.feed_forward_residual.norm", size),
            *(one for one in attention if section.attention_bias or one.absent is None),
            *affine(f"{theirs}.mlp.dense_h_to_4h", f"{ours}.feed_forward.up", size=section.inner_size),
            *affine(f"{theirs}.mlp.dense_4h_to_h", f"{ours}.feed_forward.output", size=size),
        ]
    if not section.tie_embeddings:
        maps.append(TensorMap(_HEAD, ("head.weight",)))
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {_HEAD: _EMBEDDING} if section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    rope, share = write_rotation(section), section.turned_size / section.size_per_head
    while int(section.size_per_head * share) < section.turned_size:  # as the library rounds
        share = math.nextafter(share, 2)
    return {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": section.vocab_size,
        "max_position_embeddings": section.max_seq_len,
        "hidden_size": section.d_model,
        "num_hidden_layers": section.num_layers,
        "num_attention_heads": section.num_heads,
        "intermediate_size": section.inner_size,
        "hidden_act": WRITTEN[section.activation],
        "rope_parameters": {**rope, "partial_rotary_factor": share},
        "rotary_emb_base": section.position_base,
        "rotary_pct": share,
        "use_parallel_residual": section.parallel_residual,
        "layer_norm_eps": section.norm_eps,
        "attention_bias": section.attention_bias,
        "attention_dropout": section.attention_dropout_rate,
        "hidden_dropout": section.dropout,
        "initializer_range": section.init_std,
        "tie_word_embeddings": section.tie_embeddings,
        "use_cache": True,
        **written_tokens(roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "GPT-NeoX is a decoder", architecture="decoder")
    require(section, "GPT-NeoX has rotary positions", positions="rotary")
    require(section, "GPT-NeoX rotates dimensions half of the rotated part apart", position_layout="halves")
    if section.position_scaling_kind != "yarn":
        require(section, "GPT-NeoX does not lengthen queries and keys", rotary_gain=1.0)
    require(section, "GPT-NeoX has LayerNorm", norm="layernorm")
    require(section, "GPT-NeoX normalises before every sublayer and after the last", norm_placement="pre")
    reason = "GPT-NeoX has biases in all projections of attention, or in none"
    require(section, reason, attention_output_bias=(None, section.attention_bias))
    check_plain(section, "GPT-NeoX", own=("parallel_residual",))


LAYOUT = Layout(
    name="gpt_neox",
    model_types=("gpt_neox",),
    prefix="gpt_neox.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    constants=(r"gpt_neox\.(layers\.\d+\.attention\.)?(bias|masked_bias|rotary_emb\.inv_freq)",),
    renames={"lm_head.weight": _HEAD},
    heads=(r"score\.weight", r"classifier\..*", r"qa_outputs\..*"),
)
