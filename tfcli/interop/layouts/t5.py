"""T5 (Raffel et al. 2020), versions 1.0 and 1.1: buckets of distances, unscaled scores, RMSNorm before the sublayers,
no biases.

Version 1.0 has one matrix for embeddings and head, and divides what the head reads by √d_model. Version 1.1 has a head
of its own and a gate in the feed-forward.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts.encoder_decoders import check_both_sides, written_tokens
from tfcli.interop.layouts.parts import gain
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

_GATED: dict[Activation, Activation] = {"gelu_tanh": "geglu_tanh", "silu": "swiglu", "gelu": "geglu"}
"""What a gate makes of an activation."""

_PROJECTIONS = {name: (name, False) for name in ACTIVATIONS} | {
    # "gated-gelu" is the tanh form, as the settings of version 1.1 have it.
    f"gated-{name}": ("gelu_new" if name == "gelu" else name, True)
    for name in ACTIVATIONS
    if ACTIVATIONS[name] in _GATED
}
"""The values of feed_forward_proj: the activation's name, and whether there is a gate."""

_WRITTEN: dict[Activation, str] = WRITTEN | {
    "geglu_tanh": "gated-gelu",
    "swiglu": "gated-silu",
    "geglu": "gated-gelu_python",
}

WITHOUT_EFFECT = (
    # The tensors say whether head and embeddings are one; what this once said of scale has a setting of its own.
    "tie_word_embeddings",
    # Of new weights alone.
    "initializer_factor",
    # Written by old versions of the library, read by none.
    "output_past",
)

_ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}

_HEAD, _EMBEDDING = "lm_head.weight", "shared.weight"


def _read(config: CheckpointConfig) -> ModelSection:
    # Only old files say whether there is one matrix; new ones say true whatever there is, and keep the scale apart.
    scale = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", True))
    section = read(config, "relu", scale=scale)
    config.finish(WITHOUT_EFFECT)
    return section


def read(config: CheckpointConfig, feed_forward: str, *, scale: bool) -> ModelSection:
    """The settings that T5 and mT5 share.

    Args:
        feed_forward: the family's, where the file names none.
        scale: whether logits are scaled.
    """
    check_both_sides(config, _ALIASES)
    layers, heads = config.integer("num_layers"), config.integer("num_heads")
    # One rate for all places. T5 also drops what leaves the last norms, in training alone; tfcli does not.
    dropout = config.number("dropout_rate", 0.1)
    return replace(
        PLAIN,
        architecture="encoder-decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("n_positions", 512),
        d_model=config.integer("d_model"),
        num_layers=layers,
        num_decoder_layers=config.integer("num_decoder_layers", layers),
        num_heads=heads,
        head_dim=config.integer("d_kv"),
        d_ff=config.integer("d_ff"),
        positions="t5",
        position_buckets=config.integer("relative_attention_num_buckets", 32),
        position_max_distance=config.integer("relative_attention_max_distance", 128),
        norm="rmsnorm",
        norm_bias=False,
        norm_placement="pre",
        norm_eps=config.number("layer_norm_epsilon", 1e-6),
        attention_score="dot",
        attention_bias=False,
        attention_output_bias=False,
        activation=_activation(config, feed_forward),
        feed_forward_bias=False,
        tie_embeddings=scale,  # unless the tensors say otherwise
        share_embeddings=True,
        scale_logits=scale,
        dropout=dropout,
        embedding_dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        initialization="t5",
    )


def _activation(config: CheckpointConfig, usual: str) -> Activation:
    name, gated = config.choice("feed_forward_proj", _PROJECTIONS, usual)
    config.fixed("dense_act_fn", name, reason=f"feed_forward_proj stands for {name}")
    config.fixed("is_gated_act", gated, reason=f"feed_forward_proj stands for {gated}")
    return _GATED[ACTIVATIONS[name]] if gated else ACTIVATIONS[name]


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    maps = [TensorMap(_EMBEDDING, ("embedding.weight",))]
    for side, layers in (("encoder", section.num_layers), ("decoder", section.decoder_layers)):
        for i in range(layers):
            maps += _block(f"{side}.block.{i}.layer", f"{side}.layers.{i}", section, cross=side == "decoder")
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        maps.append(TensorMap(bias, (f"{side}.positions.relative_bias.weight",)))
        maps.append(gain(f"{side}.final_layer_norm", f"{side}.final_norm", section.d_model))
    if not section.tie_embeddings:
        maps.append(TensorMap(_HEAD, ("head.weight",)))
    return maps


def _block(theirs: str, ours: str, section: ModelSection, *, cross: bool) -> list[TensorMap]:
    sublayers = [("SelfAttention", "attention"), ("EncDecAttention", "cross_attention")]
    maps = []
    for place, (their_name, our_name) in enumerate(sublayers if cross else sublayers[:1]):
        maps.append(gain(f"{theirs}.{place}.layer_norm", f"{ours}.{our_name}_residual.norm", section.d_model))
        for name in ("query", "key", "value", "output"):
            matrix = f"{theirs}.{place}.{their_name}.{name[0]}.weight"
            maps.append(TensorMap(matrix, (f"{ours}.{our_name}.{name}.weight",)))
    last = f"{theirs}.{2 if cross else 1}"
    inner = {"wi_0": "gate", "wi_1": "up", "wo": "output"} if section.is_gated else {"wi": "up", "wo": "output"}
    maps.append(gain(f"{last}.layer_norm", f"{ours}.feed_forward_residual.norm", section.d_model))
    for their_name, our_name in inner.items():
        matrix = f"{last}.DenseReluDense.{their_name}.weight"
        maps.append(TensorMap(matrix, (f"{ours}.feed_forward.{our_name}.weight",)))
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    return dict.fromkeys(copies + [_HEAD] * section.tie_embeddings, _EMBEDDING)


def write(section: ModelSection, roles: TokenRoles, family: str = "T5") -> dict[str, Any]:
    """config.json of T5, for mT5 to change.

    Args:
        family: its name, for the reason of a refusal.
    """
    _check(section, family)
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": section.vocab_size,
        "n_positions": section.max_seq_len,
        "d_model": section.d_model,
        "d_kv": section.size_per_head,
        "d_ff": section.inner_size,
        "num_layers": section.num_layers,
        "num_decoder_layers": section.decoder_layers,
        "num_heads": section.num_heads,
        "relative_attention_num_buckets": section.position_buckets,
        "relative_attention_max_distance": section.position_max_distance,
        "layer_norm_epsilon": section.norm_eps,
        "feed_forward_proj": _WRITTEN[section.activation],
        "dropout_rate": section.dropout,
        "initializer_factor": 1.0,
        "tie_word_embeddings": section.tie_embeddings,
        "scale_decoder_outputs": section.scale_logits,
        "use_cache": True,
        **written_tokens(roles),
    }


def _check(section: ModelSection, family: str) -> None:
    require(section, f"{family} is an encoder-decoder", architecture="encoder-decoder")
    require(section, f"{family} has a learned bias for every bucket of distances", positions="t5")
    require(section, f"{family} has RMSNorm", norm="rmsnorm")
    require(section, f"{family} normalises before every sublayer and after the last", norm_placement="pre")
    require(section, f"{family} has dot products as they are", attention_score="dot")
    require(section, f"{family} has no biases", attention_bias=False, attention_output_bias=(None, False))
    require(section, f"{family} has no biases", feed_forward_bias=False)
    require(section, f"{family} knows no such feed-forward", activation=tuple(_WRITTEN))
    require(section, f"{family}'s sides share their embeddings", share_embeddings=True)
    check_plain(section, family, own=("head_dim", "attention_score", "activation", "scale_logits"))


def layout(
    name: str,
    read: Callable[[CheckpointConfig], ModelSection],
    write: Callable[[ModelSection, TokenRoles], dict[str, Any]],
) -> Layout:
    """T5 or mT5, whose tensors have the same names."""
    return Layout(
        name=name,
        model_types=(name,),
        prefix="",
        read=read,
        tensors=_tensors,
        write=write,
        copies=_copies,
        untied_by=(_HEAD, _EMBEDDING),
        heads=(
            r"classification_head\..*",
            r"qa_outputs\..*",
            # In the files of version 1.0, though their own code adds nothing to the scores of cross-attention.
            r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
        ),
    )


LAYOUT = layout("t5", _read, write)
