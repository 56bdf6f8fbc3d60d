"""Llama (Touvron et al. 2023) and the families of its layout: pre-norm RMSNorm, rotary position embedding,
grouped-query attention, a gated feed-forward network. Mistral (Jiang et al. 2023) has a sliding window and no biases.
Qwen2 (Yang et al. 2024) has biases for queries, keys and values alone; Qwen3 (Yang et al. 2025) normalises queries and
keys. Granite (Granite Team 2024) has factors for embeddings, scores, sublayers and logits; the first Gemma (Gemma Team
2024) scales embeddings and keeps the gains of norms less 1. EuroBERT (Boizard et al. 2025) fills masks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.families import layout
from tfcli.interop.families.layout import CheckpointFamily, Fields, Setting, TensorMap
from tfcli.recipe.model import Activation, ModelSection, PositionScaling
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = ("is_llama_config", "max_sequence_length")  # in some files of the layout, and nothing reads it
_WRITTEN: dict[Activation, str] = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_pytorch_tanh"}
_ACTIVATIONS: dict[str, Activation] = {theirs: ours for ours, theirs in _WRITTEN.items()}
_ACTIVATIONS |= {"swish": "swiglu", "gelu_new": "geglu_tanh"}
_SCALINGS = {name: name for name in ("default", *get_args(PositionScaling))}


def read_rotation(config: CheckpointConfig, base: str = "rope_theta", share: tuple[str, float] | None = None) -> Fields:
    """The settings of rotary positions: from `rope_parameters`, or `rope_scaling` of older files, or both alike. `base`
    is the base's name, `share` that of the part of a head that is turned, and the usual one; None: whole heads are."""
    parameters, scaling_alone = config.mapping("rope_parameters"), config.mapping("rope_scaling")
    if parameters and scaling_alone and _old_spelling(parameters) != _old_spelling(scaling_alone):
        config.fixed("rope_scaling", reason="rope_parameters says otherwise how positions are rotated")
    inside = "rope_parameters" if parameters else "rope_scaling"
    rope = CheckpointConfig(config.mapping(inside), config.file, inside)
    kind = rope.choice("rope_type", _SCALINGS, rope.choice("type", _SCALINGS, "default"))
    found: dict[str, Any] = {"positions": "rotary", "position_layout": "halves"}
    found["position_base"] = rope.number("rope_theta", config.number(base, 10_000.0))
    if share is None:
        for settings in (config, rope):
            settings.fixed("partial_rotary_factor", 1, reason="tfcli rotates whole heads of this family")
    else:
        size = config.integer("hidden_size") // config.integer("num_attention_heads")
        found["position_dim"] = int(size * rope.number("partial_rotary_factor", config.number(*share)))
        if found["position_dim"] % 2 or not 0 < found["position_dim"] <= size:
            is_new = rope.has("partial_rotary_factor")
            said, name = (rope, "partial_rotary_factor") if is_new else (config, share[0])
            said.fixed(name, reason=f"pairs of dimensions of a head of {size} are rotated")
    if kind != "default":
        found |= {"position_scaling_kind": kind, "position_scaling": rope.number("factor")}
    trained_len = _read_trained_len(config, rope)
    if kind in ("llama3", "yarn"):
        found["position_trained_len"] = trained_len
    if kind == "llama3":
        found |= {f"position_{end}_turns": rope.number(f"{end}_freq_factor") for end in ("low", "high")}
    if kind == "yarn":
        rope.fixed("truncate", True, reason="tfcli's ramp begins and ends at a pair of dimensions")
        found["position_low_turns"] = rope.number("beta_slow", 1.0) or 1.0
        found["position_high_turns"] = rope.number("beta_fast", 32.0) or 32.0
        found["position_gain"] = _gain(rope, rope.number("factor"))
    rope.finish()
    return found


def _read_trained_len(config: CheckpointConfig, rope: CheckpointConfig) -> int:
    """The context that a stretched model was first trained with.

    It counts for llama3 and yarn; beside other kinds of stretching it has no effect. Files have it
    among the settings of the rotation, or beside them, which transformers 5 prefers.
    """
    name = "original_max_position_embeddings"
    inner = rope.integer(name, config.integer("max_position_embeddings"))
    if rope.has(name):
        config.fixed(name, inner, reason=f"the settings of the rotation say {inner}")
    return config.integer(name, inner)


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


def _write_rope(section: ModelSection) -> Fields:
    """`rope_parameters`, and what versions before 5 of the library read, which take 10,000 where it is missing."""
    rope = write_rotation(section)
    older = {} if rope["rope_type"] == "default" else {"rope_scaling": _old_spelling(rope)}
    return {"rope_parameters": rope, "rope_theta": section.position_base, **older}


_LAYER = {
    "input_layernorm": "attention_residual.norm",
    "post_attention_layernorm": "feed_forward_residual.norm",
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
    **layout.projections("self_attn.{}_proj"),
    **{f"mlp.{name}_proj": f"feed_forward.{name}" for name in ("gate", "up")},
    "mlp.down_proj": "feed_forward.output",
}


def _body(section: ModelSection) -> list[TensorMap]:
    return [
        *layout.named({"model.embed_tokens.weight": "embedding.weight"}),
        *layout.layers(section, "model.layers", _LAYER),
        *layout.named({"model.norm.weight": "stack.final_norm.weight", "lm_head.bias": "head.bias"}),
    ]


ROTARY: Fields = {
    "positions": "rotary",
    "position_layout": "halves",
    "rotary_gain": lambda section: section.position_scaling_kind == "yarn" or section.rotary_gain == 1.0,
}


def alike_biases(section: ModelSection) -> bool:
    """Such families have one switch for the biases of attention."""
    return section.attention_output_bias in (None, section.attention_bias)


def _whole_heads(section: ModelSection) -> bool:
    """`transformers` demands it of some families even where they say their head size."""
    return section.d_model % section.num_heads == 0


_WRITTEN_ONE_PIECE = Setting.constants(pretraining_tp=1)
_GATE = Setting.activation("hidden_act", "silu", _ACTIVATIONS, _WRITTEN)
_ATTENTION_BIAS = Setting.flag("attention_bias", "attention_bias", default=False)
_MLP_BIAS = Setting.flag("mlp_bias", "feed_forward_bias", default=False)


def _family(
    name: str,
    model_class: str,
    *own: Setting,
    form: Fields,
    free: Sequence[str] = (),
    kv_heads: int | None = None,
    head_dim: int | None = None,
    gate: Setting = _GATE,
    tied: bool = False,
    without_effect: tuple[str, ...] = (),
    **others: Any,
) -> CheckpointFamily:
    """A family of the layout. `own` are settings that Llama does not have, `others` what else it has otherwise; `form`
    is what it has beside the rest, `free` what in several forms. `kv_heads`, `head_dim` and `tied` count where the file
    says nothing of them (kv_heads: not even null)."""

    def usual_kv_heads(config: CheckpointConfig) -> int:
        heads = config.integer("num_attention_heads")
        return heads if config.says("num_key_value_heads") else kv_heads or heads

    def usual_head_dim(config: CheckpointConfig) -> int:
        return head_dim or config.integer("hidden_size") // config.integer("num_attention_heads")

    common: Fields = {
        "architecture": "decoder",
        **ROTARY,
        "position_dim": lambda section: section.position_dim in (None, section.size_per_head),
        "norm": "rmsnorm",
        "norm_placement": "pre",
        "activation": tuple(_WRITTEN),
    }
    as_llama: dict[str, Any] = {"body": _body}
    return CheckpointFamily(
        name=name,
        settings=(
            Setting.architecture(model_class),
            *Setting.numbers(0.0, attention_dropout="attention_dropout"),
            *Setting.integers(usual_head_dim, head_dim="head_dim"),
            gate,
            *Setting.integers(hidden_size="d_model"),
            *Setting.numbers(0.02, initializer_range="init_std"),
            *Setting.integers(intermediate_size="d_ff", max_position_embeddings="max_seq_len"),
            Setting.constants(model_type=name),
            *Setting.integers(num_attention_heads="num_heads", num_hidden_layers="num_layers"),
            *Setting.integers(usual_kv_heads, num_key_value_heads="num_kv_heads"),
            *Setting.numbers(rms_norm_eps="norm_eps"),
            Setting.fixed("rope_interleaved", False, reason="the layout rotates dimensions that lie half a head apart"),
            Setting(read_rotation, lambda section, _: _write_rope(section)),
            Setting.tying(default=tied),
            *Setting.integers(vocab_size="vocab_size"),
            layout.TOKENS,
            *own,
            Setting.fixed("pretraining_tp", 1, reason="tfcli computes each product in one piece"),
        ),
        form=layout.full_form(common, "num_kv_heads", "head_dim", *free, last=form),
        given={"norm_bias": False},
        without_effect=_WITHOUT_EFFECT + without_effect,
        head=("lm_head.weight", "model.embed_tokens.weight"),
        prefix="model.",
        constants=(r".*\.rotary_emb\.inv_freq",),
        **as_llama | others,
    )


LLAMA = _family(
    "llama",
    "LlamaForCausalLM",
    *(_ATTENTION_BIAS, _MLP_BIAS, _WRITTEN_ONE_PIECE),
    form={"attention_output_bias": alike_biases, "num_heads": _whole_heads},
)


def _read_mistral_window(config: CheckpointConfig) -> Fields:
    """A window of null says that there is none, as in the releases from 0.2 on; no word of it means the first's."""
    has_none = config.says("sliding_window") and not config.has("sliding_window")
    return {"sliding_window": None if has_none else config.integer("sliding_window", 4096)}


MISTRAL = _family(
    "mistral",
    "MistralForCausalLM",
    Setting(_read_mistral_window, lambda section, _: {"sliding_window": section.sliding_window}),
    kv_heads=8,
    free=["sliding_window"],
    form=layout.UNBIASED,
)


def _read_window(config: CheckpointConfig) -> Fields:
    """The window of all layers, or of none: tfcli's layers are alike."""
    window, kind, num_layers = None, "full_attention", config.integer("num_hidden_layers")
    if config.flag("use_sliding_window", False):
        full_layers = config.number("max_window_layers", 28)
        if 0 < full_layers < num_layers:
            config.fixed("max_window_layers", reason="tfcli's layers are all alike, with a window or without")
        if full_layers == 0:
            window, kind = config.integer("sliding_window"), "sliding_attention"
    config.fixed("layer_types", [kind] * num_layers, reason=f"every layer must be of {kind}, as the windows say")
    return {"sliding_window": window}


def _write_window(section: ModelSection) -> Fields:
    window, layers = section.sliding_window, section.num_layers
    kind, full = ("full_attention", layers) if window is None else ("sliding_attention", 0)
    types = {"layer_types": [kind] * layers, "max_window_layers": full}
    return {**types, "sliding_window": window, "use_sliding_window": window is not None}


_WINDOW = Setting(_read_window, lambda section, _: _write_window(section))
_WINDOW_OFF = ("max_window_layers", "sliding_window")  # say nothing where `use_sliding_window` is off

QWEN2 = _family(
    "qwen2",
    "Qwen2ForCausalLM",
    _WINDOW,
    Setting.fixed("use_mrope", False, reason="tfcli numbers tokens along one axis"),
    kv_heads=32,
    free=["sliding_window"],
    form={"attention_bias": True, "attention_output_bias": False, "feed_forward_bias": False},
    without_effect=_WINDOW_OFF,
)

QWEN3 = _family(
    "qwen3",
    "Qwen3ForCausalLM",
    *(_WINDOW, _ATTENTION_BIAS),
    kv_heads=32,
    head_dim=128,
    free=["sliding_window", "query_key_norm"],
    form={"query_key_norm": True, "attention_output_bias": alike_biases, "feed_forward_bias": False},
    without_effect=_WINDOW_OFF,
)

_is_root = partial(math.isclose, rel_tol=1e-6)  # a file may write √d_model with few digits


def _read_factors(config: CheckpointConfig) -> Fields:
    """A factor that is 1 or the root of a size is a setting of tfcli's too; `_granite_factors` has the others."""
    d_model, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    size = config.integer("head_dim", d_model // heads)
    config.number("residual_multiplier", 1.0)
    if (divisor := config.number("logits_scaling", 1.0)) == 0:
        config.fixed("logits_scaling", reason="logits are divided by it")
    return {
        "scale_embeddings": _is_root(config.number("embedding_multiplier", 1.0), d_model**0.5),
        "attention_score": "scaled_dot" if _is_root(config.number("attention_multiplier", 1.0), size**-0.5) else "dot",
        "scale_logits": _is_root(divisor, d_model**0.5),
    }


def _granite_factors(values: Fields, section: ModelSection) -> dict[str, float]:
    """The factors that tfcli does not have: each can be multiplied into a matrix."""
    found = {}
    for pattern, name, is_own in (
        (r"embedding\.weight", "embedding_multiplier", section.scale_embeddings),
        (r".*\.attention\.query\..*", "attention_multiplier", section.attention_score == "scaled_dot"),
        (r".*\.(attention|feed_forward)\.output\..*", "residual_multiplier", False),
        (r"head\.weight", "logits_scaling", section.scale_logits),
    ):
        if not is_own and (factor := values.get(name)) not in (None, 1):
            found[pattern] = 1 / factor if name == "logits_scaling" else factor
    return found


def _write_factors(section: ModelSection, _: TokenRoles) -> Fields:
    score = section.size_per_head**-0.5 if section.attention_score == "scaled_dot" else 1.0
    logits = section.d_model**0.5 if section.scale_logits else 1.0
    return {"attention_multiplier": score, "embedding_multiplier": section.embedding_scale, "logits_scaling": logits}


GRANITE = _family(
    "granite",
    "GraniteForCausalLM",
    _ATTENTION_BIAS,
    Setting(_read_factors, _write_factors),
    _MLP_BIAS,
    Setting.constants(residual_multiplier=1.0),
    free=["scale_embeddings", "attention_score", "scale_logits"],
    form={"attention_score": ("scaled_dot", "dot"), "attention_output_bias": alike_biases},
    factors=_granite_factors,
)

# The first files say gelu, and mean the tanh form.
_GEMMA: dict[str, Activation] = dict.fromkeys(("gelu_pytorch_tanh", "gelu", "gelu_new"), "geglu_tanh")

GEMMA = _family(
    "gemma",
    "GemmaForCausalLM",
    _ATTENTION_BIAS,
    Setting.fixed("use_bidirectional_attention", False, reason="tfcli reads Gemma as a decoder"),
    Setting.fixed("hidden_activation", "gelu_pytorch_tanh", reason="hidden_act says it"),
    kv_heads=16,
    head_dim=256,
    gate=Setting.activation("hidden_act", "gelu_pytorch_tanh", {**_GEMMA, "silu": "swiglu"}, _WRITTEN),
    tied=True,
    free=["scale_embeddings"],
    form={"attention_output_bias": alike_biases, "feed_forward_bias": False}
    | {"activation": ("geglu_tanh", "swiglu"), "scale_embeddings": True},
    body=lambda section: [replace(one, shift=float(one.ours[0].endswith("norm.weight"))) for one in _body(section)],
)

EUROBERT = _family(
    "eurobert",
    "EuroBertForMaskedLM",
    Setting(write=lambda _, roles: {} if roles.mask is None else {"mask_token_id": roles.mask}),
    _ATTENTION_BIAS,
    Setting.flag("mlp_bias", "feed_forward_bias", "head_bias", default=False),
    _WRITTEN_ONE_PIECE,
    Setting.fixed("hidden_dropout", 0, reason="the family drops nothing but attention weights"),
    free=["head_bias"],
    form={
        "architecture": "encoder",
        "attention_output_bias": alike_biases,
        "head_bias": lambda section: section.head_bias == section.feed_forward_bias,
        "num_heads": _whole_heads,
    },
    # Spellings of tokens, and how a classifier reads the text.
    without_effect=("bos_token", "eos_token", "pad_token", "mask_token", "classifier_pooling", "clf_pooling"),
)
