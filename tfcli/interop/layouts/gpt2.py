"""GPT-2 (Radford et al. 2019): learned positions, norms before the sublayers, biases everywhere.

Its matrices lie in the checkpoint as (in, out), and those of queries, keys and values side by side in one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts.parts import affine, norm, written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = (
    # Heads of other tasks.
    "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
    "summary_last_dropout",
    # The order in which scores are scaled and the type they are computed in: rounding, not meaning.
    "reorder_and_upcast_attn",
    # Written by old versions of the library, read by none.
    "n_special", "predict_special_tokens", "output_past",
)  # fmt: skip


def _read(config: CheckpointConfig) -> ModelSection:
    d_model, positions = config.integer("n_embd"), config.integer("n_positions")
    config.fixed("n_ctx", positions, reason=f"n_positions = {positions} is another context")
    config.fixed("scale_attn_by_inverse_layer_idx", False, reason="tfcli scales the scores of all layers alike")
    config.fixed("add_cross_attention", False, reason="tfcli's decoder has nothing to attend to but its own text")
    section = replace(
        PLAIN,
        architecture="decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=positions,
        d_model=d_model,
        num_layers=config.integer("n_layer"),
        num_heads=config.integer("n_head"),
        d_ff=config.integer("n_inner", 4 * d_model),
        positions="learned",
        norm="layernorm",
        norm_bias=True,
        norm_placement="pre",
        norm_eps=config.number("layer_norm_epsilon", 1e-5),
        attention_score="scaled_dot" if config.flag("scale_attn_weights", True) else "dot",
        attention_bias=True,
        attention_output_bias=True,
        activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
        feed_forward_bias=True,
        tie_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.number("resid_pdrop", 0.1),
        embedding_dropout=config.number("embd_pdrop", 0.1),
        attention_dropout=config.number("attn_pdrop", 0.1),
        initialization="gpt2",
        init_std=config.number("initializer_range", 0.02),
    )
    config.finish(_WITHOUT_EFFECT)
    return section


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    final = norm("transformer.ln_f", "stack.final_norm", section.d_model)
    return [*tensors(section, words="wte", positions="wpe"), *final]


def tensors(section: ModelSection, *, words: str, positions: str) -> list[TensorMap]:
    """Those that the first GPT has as well, where the embeddings have these names."""
    size, inner = section.d_model, section.inner_size
    maps = [
        TensorMap(f"transformer.{words}.weight", ("embedding.weight",)),
        TensorMap(f"transformer.{positions}.weight", ("embedding.positions",)),
    ]
    for i in range(section.num_layers):
        theirs, ours = f"transformer.h.{i}", f"stack.layers.{i}"
        attention, forward = f"{ours}.attention", f"{ours}.feed_forward"
        joined = (f"{attention}.query", f"{attention}.key", f"{attention}.value")
        maps += [
            *norm(f"{theirs}.ln_1", f"{ours}.attention_residual.norm", size),
            *affine(f"{theirs}.attn.c_attn", *joined, size=3 * size, transposed=True),
            *affine(f"{theirs}.attn.c_proj", f"{attention}.output", size=size, transposed=True),
            *norm(f"{theirs}.ln_2", f"{ours}.feed_forward_residual.norm", size),
            *affine(f"{theirs}.mlp.c_fc", f"{forward}.up", size=inner, transposed=True),
            *affine(f"{theirs}.mlp.c_proj", f"{forward}.output", size=size, transposed=True),
        ]
    if not section.tie_embeddings:
        maps.append(TensorMap("lm_head.weight", ("head.weight",)))
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {"lm_head.weight": "transformer.wte.weight"} if section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": section.vocab_size,
        "n_positions": section.max_seq_len,
        "n_embd": section.d_model,
        "n_layer": section.num_layers,
        "n_head": section.num_heads,
        "n_inner": section.inner_size,
        "activation_function": WRITTEN[section.activation],
        "resid_pdrop": section.dropout,
        "embd_pdrop": section.embedding_dropout_rate,
        "attn_pdrop": section.attention_dropout_rate,
        "layer_norm_epsilon": section.norm_eps,
        "initializer_range": section.init_std,
        "scale_attn_weights": section.attention_score == "scaled_dot",
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": section.tie_embeddings,
        "use_cache": True,
        **written_tokens(roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "GPT-2 is a decoder", architecture="decoder")
    require(section, "GPT-2 learns its positions", positions="learned")
    require(section, "GPT-2 has LayerNorm", norm="layernorm")
    require(section, "GPT-2 normalises before every sublayer and after the last", norm_placement="pre")
    require(section, "GPT-2 has dot products, scaled or not", attention_score=("scaled_dot", "dot"))
    check_plain(section, "GPT-2", own=("attention_score",))


LAYOUT = Layout(
    name="gpt2",
    model_types=("gpt2",),
    prefix="transformer.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    constants=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
    heads=(r"score\..*", r"classifier\..*", r"qa_outputs\..*", r"multiple_choice_head\..*"),
)
