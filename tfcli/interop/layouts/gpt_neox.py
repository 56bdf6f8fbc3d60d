"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): rotary position embedding of a part of each head, and
the feed-forward network beside attention. Queries, keys and values lie side by side, a head after the other."""

import math

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import BIASED, TOKENS, Fields, Layout, Setting, TensorMap, affine, form
from tfcli.interop.layouts.llama import read_rotation, write_rotation
from tfcli.recipe.model import ModelSection

_TURNED = 0.25
"""Share of a head that is rotated, where the file does not say."""


def _read_rotation(config: CheckpointConfig) -> Fields:
    size = config.integer("hidden_size") // config.integer("num_attention_heads")
    return read_rotation(config, ("rotary_emb_base", "rotary_pct"), _TURNED, size)


def _write_rotation(section: ModelSection) -> Fields:
    share = section.turned_size / section.size_per_head
    while int(section.size_per_head * share) < section.turned_size:  # as the library rounds
        share = math.nextafter(share, 2)
    rope = {**write_rotation(section), "partial_rotary_factor": share}
    return {"rope_parameters": rope, "rotary_emb_base": section.position_base, "rotary_pct": share}


def _read_biases(config: CheckpointConfig) -> Fields:
    bias = config.flag("attention_bias", True)
    return {"attention_bias": bias, "attention_output_bias": bias}


_NORMS = {
    "input_layernorm": "attention_residual.norm",
    "post_attention_layernorm": "feed_forward_residual.norm",
}
_FEED_FORWARD = {"mlp.dense_h_to_4h": "feed_forward.up", "mlp.dense_4h_to_h": "feed_forward.output"}


def _body(section: ModelSection) -> list[TensorMap]:
    maps = [
        TensorMap("gpt_neox.embed_in.weight", ("embedding.weight",)),
        *affine(section, "gpt_neox", "stack", {"final_layer_norm": "final_norm"}),
    ]
    joined = {"query_key_value": "query key value"}
    for i in range(section.num_layers):
        theirs, ours = f"gpt_neox.layers.{i}", f"stack.layers.{i}"
        attention = [
            *affine(section, f"{theirs}.attention", f"{ours}.attention", joined, groups=section.num_heads),
            *affine(section, f"{theirs}.attention", f"{ours}.attention", {"dense": "output"}),
        ]
        maps += affine(section, theirs, ours, _NORMS | _FEED_FORWARD)
        maps += [one for one in attention if section.attention_bias or one.absent is None]
    return maps


GPT_NEOX = Layout(
    name="gpt_neox",
    settings=(
        Setting.family("gpt_neox", "GPTNeoXForCausalLM"),
        Setting.integer("vocab_size", "vocab_size"),
        Setting.integer("max_position_embeddings", "max_seq_len"),
        Setting.integer("hidden_size", "d_model"),
        Setting.integer("num_hidden_layers", "num_layers"),
        Setting.integer("num_attention_heads", "num_heads"),
        Setting.integer("intermediate_size", "d_ff"),
        Setting.activation("hidden_act", "gelu"),
        Setting(_read_rotation, lambda section, _: _write_rotation(section)),
        Setting.flag("use_parallel_residual", "parallel_residual", True),
        Setting.number("layer_norm_eps", "norm_eps", default=1e-5),
        Setting(_read_biases, lambda section, _: {"attention_bias": section.attention_bias}),
        Setting.number("attention_dropout", "attention_dropout", default=0.0),
        Setting.number("hidden_dropout", "dropout", "embedding_dropout", default=0.0),
        Setting.number("initializer_range", "init_std", default=0.02),
        Setting.flag("tie_word_embeddings", "tie_embeddings", False),
        Setting.constant("use_cache", True),
        TOKENS,
    ),
    form=form(
        {
            "architecture": "decoder",
            "positions": "rotary",
            "position_layout": "halves",
            "rotary_gain": lambda section: section.position_scaling_kind == "yarn" or section.rotary_gain == 1.0,
            "norm": "layernorm",
            "norm_placement": "pre",
            "attention_output_bias": lambda section: section.attention_output_bias in (None, section.attention_bias),
        },
        "parallel_residual",
    ),
    given=BIASED,
    body=_body,
    head=("embed_out.weight", "gpt_neox.embed_in.weight"),
    prefix="gpt_neox.",
    constants=(r"gpt_neox\.(layers\.\d+\.attention\.)?(bias|masked_bias|rotary_emb\.inv_freq)",),
    renames={"lm_head.weight": "embed_out.weight"},
    heads=(r"score\.weight", r"classifier\..*", r"qa_outputs\..*"),
)
