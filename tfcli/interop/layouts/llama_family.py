"""What the families of Llama's layout have in common: settings, tensors, and how they are written."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, get_args

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Inexpressible, Layout, TensorMap, require
from tfcli.interop.layouts.parts import gain, written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import Activation, ModelSection, PositionScaling
from tfcli.records.roles import TokenRoles

WITHOUT_EFFECT = ("is_llama_config", "max_sequence_length")
"""Settings that some files of the layout carry and that nothing reads."""

_ACTIVATIONS: dict[str, Activation] = {
    "silu": "swiglu",
    "gelu": "geglu",
    "gelu_pytorch_tanh": "geglu_tanh",
    "swish": "swiglu",
    "gelu_new": "geglu_tanh",
}
_SCALINGS = {name: name for name in ("default", *get_args(PositionScaling))}
_WRITTEN: dict[Activation, str] = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_pytorch_tanh"}


def layout(
    name: str,
    read: Callable[[CheckpointConfig], ModelSection],
    write: Callable[[ModelSection, TokenRoles], dict[str, Any]],
    heads: tuple[str, ...] = (r"score\.(weight|bias)",),
) -> Layout:
    """A family of the layout: all have the same names, and differ in what their config.json says."""
    return Layout(
        name=name,
        model_types=(name,),
        prefix="model.",
        read=read,
        tensors=tensors,
        write=write,
        copies=_copies,
        constants=(r".*\.rotary_emb\.inv_freq",),
        heads=heads,
    )


def read(config: CheckpointConfig, kv_heads: int | None = None, head_dim: int | None = None) -> ModelSection:
    """The settings that all families share; every other one as Llama has it.

    Args:
        kv_heads: the family's, where the file says nothing of them. None, and where it says null: num_heads.
        head_dim: the family's, where the file says none. None: d_model / num_heads.
    """
    config.fixed("pretraining_tp", 1, reason="tfcli computes each product in one piece")
    config.fixed("rope_interleaved", False, reason="the layout rotates dimensions that lie half a head apart")
    d_model, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    said = config.says("num_key_value_heads")
    return replace(
        PLAIN,
        **read_rotation(config),
        architecture="decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=d_model,
        num_layers=config.integer("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=config.integer("num_key_value_heads", heads if said else kv_heads or heads),
        head_dim=config.integer("head_dim", head_dim or d_model // heads),
        d_ff=config.integer("intermediate_size"),
        norm="rmsnorm",
        norm_bias=False,
        norm_placement="pre",
        norm_eps=config.number("rms_norm_eps"),
        attention_bias=False,
        attention_output_bias=None,
        activation=config.choice("hidden_act", _ACTIVATIONS, "silu"),
        feed_forward_bias=False,
        tie_embeddings=config.flag("tie_word_embeddings", False),
        dropout=0.0,
        embedding_dropout=0.0,
        attention_dropout=config.number("attention_dropout", 0.0),
        initialization="bert",
        init_std=config.number("initializer_range", 0.02),
    )


def read_rotation(
    config: CheckpointConfig,
    names: tuple[str, str] = ("rope_theta", "partial_rotary_factor"),
    share: float = 1.0,
    size: int | None = None,
) -> dict[str, Any]:
    """The settings of rotary positions: from `rope_parameters`, or `rope_scaling` of older files, or both alike.

    Args:
        names: what the family calls the base and the share of a head that is turned.
        share: the family's, where the file says none.
        size: of a head. None: the family turns whole heads.
    """
    theta = config.number(names[0], 10_000.0)
    parameters, scaling_alone = config.mapping("rope_parameters"), config.mapping("rope_scaling")
    if parameters and scaling_alone and _old_spelling(parameters) != _old_spelling(scaling_alone):
        config.fixed("rope_scaling", reason="rope_parameters says otherwise how positions are rotated")
    inside = "rope_parameters" if parameters else "rope_scaling"
    rope = CheckpointConfig(config.mapping(inside), config.file, inside)
    kind = rope.choice("rope_type", _SCALINGS, rope.choice("type", _SCALINGS, "default"))
    found: dict[str, Any] = {
        "positions": "rotary",
        "position_layout": "halves",
        "position_base": rope.number("rope_theta", theta),
    }
    if size is None:
        for settings in (config, rope):
            settings.fixed("partial_rotary_factor", 1, reason="tfcli rotates whole heads of this family")
    else:
        share = rope.number("partial_rotary_factor", config.number(names[1], share))
        found["position_dim"] = int(size * share)
        if found["position_dim"] % 2 or not 0 < found["position_dim"] <= size:
            said = rope if rope.has("partial_rotary_factor") else config
            name = "partial_rotary_factor" if said is rope else names[1]
            said.fixed(name, reason=f"pairs of dimensions of a head of {size} are rotated")
    if kind != "default":
        found |= {"position_scaling_kind": kind, "position_scaling": rope.number("factor")}
    if kind in ("llama3", "yarn"):
        context = rope.integer("original_max_position_embeddings", config.integer("max_position_embeddings"))
        found["position_trained_len"] = context
    if kind == "llama3":
        found["position_low_turns"] = rope.number("low_freq_factor")
        found["position_high_turns"] = rope.number("high_freq_factor")
    if kind == "yarn":
        rope.fixed("truncate", True, reason="tfcli's ramp begins and ends at a pair of dimensions")
        found["position_low_turns"] = rope.number("beta_slow", 1.0) or 1.0
        found["position_high_turns"] = rope.number("beta_fast", 32.0) or 32.0
        found["position_gain"] = _gain(rope, rope.number("factor"))
    rope.finish()
    return found


def _gain(rope: CheckpointConfig, factor: float) -> float:
    """What yarn multiplies turned queries and keys by: said, or made from the factor."""
    usual = 1 + 0.1 * math.log(max(factor, 1))
    above, below = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    if above and below:
        usual = (1 + above * (usual - 1)) / (1 + below * (usual - 1))
    return rope.number("attention_factor", usual)


def write_rotation(section: ModelSection) -> dict[str, Any]:
    """`rope_parameters`."""
    kind = section.position_scaling_kind
    rope: dict[str, Any] = {"rope_theta": section.position_base, "rope_type": "default"}
    if kind != "linear" or section.position_scaling != 1:
        rope |= {"rope_type": kind, "factor": section.position_scaling}
    low, high = section.turns
    if kind in ("llama3", "yarn"):
        rope["original_max_position_embeddings"] = section.position_trained_len or section.max_seq_len
    if kind == "llama3":
        rope |= {"low_freq_factor": low, "high_freq_factor": high}
    if kind == "yarn":
        rope |= {"beta_slow": low, "beta_fast": high, "attention_factor": section.rotary_gain}
    return rope


def _old_spelling(rope: Mapping[str, Any]) -> dict[str, Any]:
    """`rope_parameters` as `rope_scaling` of older files, whose base stands beside it."""
    kind = {"type": rope.get("rope_type", rope.get("type", "default"))}
    return kind | {name: value for name, value in rope.items() if name not in ("type", "rope_type", "rope_theta")}


def tensors(section: ModelSection) -> list[TensorMap]:
    """The tensors that all families of the layout have."""
    maps = [TensorMap("model.embed_tokens.weight", ("embedding.weight",))]
    for i in range(section.num_layers):
        maps += _layer(section, f"model.layers.{i}", f"stack.layers.{i}")
    maps.append(gain("model.norm", "stack.final_norm", section.d_model))
    if not section.tie_embeddings:
        maps.append(TensorMap("lm_head.weight", ("head.weight",)))
    if section.head_bias:
        maps.append(TensorMap("lm_head.bias", ("head.bias",)))
    return maps


def _layer(section: ModelSection, theirs: str, ours: str) -> list[TensorMap]:
    attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
    maps = [
        gain(f"{theirs}.input_layernorm", f"{ours}.attention_residual.norm", section.d_model),
        gain(f"{theirs}.post_attention_layernorm", f"{ours}.feed_forward_residual.norm", section.d_model),
    ]
    if section.query_key_norm:
        maps.append(gain(f"{attention}.q_norm", f"{ours}.attention.query_norm", section.size_per_head))
        maps.append(gain(f"{attention}.k_norm", f"{ours}.attention.key_norm", section.size_per_head))
    for name, parameter, biased in (
        (f"{attention}.q_proj", "attention.query", section.attention_bias),
        (f"{attention}.k_proj", "attention.key", section.attention_bias),
        (f"{attention}.v_proj", "attention.value", section.attention_bias),
        (f"{attention}.o_proj", "attention.output", section.has_output_bias),
        (f"{mlp}.gate_proj", "feed_forward.gate", section.feed_forward_bias),
        (f"{mlp}.up_proj", "feed_forward.up", section.feed_forward_bias),
        (f"{mlp}.down_proj", "feed_forward.output", section.feed_forward_bias),
    ):
        for part in ("weight", "bias") if biased else ("weight",):
            maps.append(TensorMap(f"{name}.{part}", (f"{ours}.{parameter}.{part}",)))
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {"lm_head.weight": "model.embed_tokens.weight"} if section.tie_embeddings else {}


def check(section: ModelSection, family: str, own: Collection[str] = ()) -> None:
    """Refuse what no family of the layout has.

    Args:
        family: its name, for the reason.
        own: settings that it has in another form than most: it checks them itself.

    Raises:
        Inexpressible: names the first setting in the way.
    """
    require(section, f"{family} has rotary positions", positions="rotary")
    require(section, f"{family} rotates dimensions that lie half a head apart", position_layout="halves")
    require(section, f"{family} rotates whole heads", position_dim=(None, section.size_per_head))
    if section.position_scaling_kind != "yarn":
        require(section, f"{family} does not lengthen queries and keys", rotary_gain=1.0)
    require(section, f"{family} has RMSNorm", norm="rmsnorm")
    require(section, f"{family} normalises before every sublayer and after the last", norm_placement="pre")
    require(section, f"{family} has a gate in its feed-forward", activation=tuple(_WRITTEN))
    check_plain(section, family, own=("num_kv_heads", "head_dim", "activation", *own))


def check_alike_biases(section: ModelSection, family: str) -> None:
    """Check what families demand that have one switch for the biases of attention."""
    reason = f"{family} has biases in all projections of attention, or in none"
    require(section, reason, attention_output_bias=(None, section.attention_bias))


def check_whole_heads(section: ModelSection, family: str) -> None:
    """Check what `transformers` demands of some families even where they say their head size."""
    if section.d_model % section.num_heads:
        raise Inexpressible("num_heads", section.num_heads, f"{family} wants a divisor of d_model = {section.d_model}")


def write(section: ModelSection, roles: TokenRoles, model_type: str, architecture: str) -> dict[str, Any]:
    """The part of config.json that all families share."""
    rope = write_rotation(section)
    scaled = rope["rope_type"] != "default"
    return {
        "architectures": [architecture],
        "attention_dropout": section.attention_dropout_rate,
        "head_dim": section.size_per_head,
        "hidden_act": _WRITTEN[section.activation],
        "hidden_size": section.d_model,
        "initializer_range": section.init_std,
        "intermediate_size": section.inner_size,
        "max_position_embeddings": section.max_seq_len,
        "model_type": model_type,
        "num_attention_heads": section.num_heads,
        "num_hidden_layers": section.num_layers,
        "num_key_value_heads": section.kv_heads,
        "rms_norm_eps": section.norm_eps,
        "rope_parameters": rope,
        # As versions before 5 of the library read it, which take 10,000 where it is missing.
        "rope_theta": section.position_base,
        **({"rope_scaling": _old_spelling(rope)} if scaled else {}),
        "tie_word_embeddings": section.tie_embeddings,
        "vocab_size": section.vocab_size,
        **written_tokens(roles),
    }
