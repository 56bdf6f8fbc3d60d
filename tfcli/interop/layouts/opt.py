"""OPT (Zhang et al. 2022): learned positional embeddings read from row 2 on; pre-norm or, in one model, post-norm."""

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import TOKENS, Fields, Layout, Setting, TensorMap, affine, form
from tfcli.interop.layouts.bart import LAYER
from tfcli.recipe.model import ModelSection


def _read_norms(config: CheckpointConfig) -> Fields:
    learned = config.flag("layer_norm_elementwise_affine", True)
    placement = "pre" if config.flag("do_layer_norm_before", True) else "post"
    return {"norm_placement": placement, "norm_affine": learned, "norm_bias": learned}


def _write_norms(section: ModelSection) -> Fields:
    return {
        "do_layer_norm_before": section.norm_placement == "pre",
        "layer_norm_elementwise_affine": section.norm_affine,
    }


def _read_biases(config: CheckpointConfig) -> Fields:
    biased = config.flag("enable_bias", True)
    return {"attention_bias": biased, "attention_output_bias": biased, "feed_forward_bias": biased}


def _is_biased(section: ModelSection) -> bool:
    return section.attention_bias or section.has_output_bias or section.feed_forward_bias


def _body(section: ModelSection) -> list[TensorMap]:
    maps = [
        TensorMap("model.decoder.embed_tokens.weight", ("embedding.weight",)),
        TensorMap("model.decoder.embed_positions.weight", ("embedding.positions",)),
    ]
    for i in range(section.num_layers):
        maps += affine(section, f"model.decoder.layers.{i}", f"stack.layers.{i}", LAYER)
    if section.norm_placement == "pre":
        maps += affine(section, "model.decoder", "stack", {"final_layer_norm": "final_norm"})
    there = {True: section.norm_affine, False: _is_biased(section)}
    return [one for one in maps if one.absent is None or there["layer_norm" in one.theirs]]


OPT = Layout(
    name="opt",
    settings=(
        Setting.family("opt", "OPTForCausalLM"),
        Setting.integer("vocab_size", "vocab_size"),
        Setting.integer("max_position_embeddings", "max_seq_len"),
        Setting.integer("hidden_size", "d_model"),
        Setting.alias(
            "word_embed_proj_dim",
            "hidden_size",
            reason="tfcli's embeddings are as large as its layers' vectors",
        ),
        Setting(write=lambda section, _: {"word_embed_proj_dim": section.d_model}),
        Setting.fixed(
            "_remove_final_layer_norm", False, reason="tfcli's layers with a norm before have one after the last"
        ),
        Setting.fixed("layerdrop", 0, reason="tfcli leaves out no layers in training"),
        Setting.integer("num_hidden_layers", "num_layers"),
        Setting.integer("num_attention_heads", "num_heads"),
        Setting.integer("ffn_dim", "d_ff"),
        Setting.activation("activation_function", "relu"),
        Setting(_read_norms, lambda section, _: _write_norms(section)),
        Setting(_read_biases, lambda section, _: {"enable_bias": _is_biased(section)}),
        Setting.number("dropout", "dropout", default=0.1),
        Setting.number("attention_dropout", "attention_dropout", default=0.0),
        Setting.number("init_std", "init_std", default=0.02),
        Setting.flag("tie_word_embeddings", "tie_embeddings", True),
        Setting.constant("use_cache", True),
        TOKENS,
    ),
    form=form(
        {
            "architecture": "decoder",
            "positions": "learned",
            "position_offset": 2,
            "norm": "layernorm",
            "norm_eps": 1e-5,
        }
    ),
    body=_body,
    head=("lm_head.weight", "model.decoder.embed_tokens.weight"),
    prefix="model.",
    heads=(r"score\.weight", r"qa_outputs\..*"),
)
