"""T5 (Raffel et al. 2020), versions 1.0 and 1.1, and mT5 (Xue et al. 2021): a relative position bias, unscaled scores,
pre-norm RMSNorm, no biases. Version 1.0 has one matrix for embeddings and head, and divides what the head reads by
√d_model. Version 1.1 has its own head and a gated feed-forward; mT5 a large vocabulary too, and never scales logits."""

from collections.abc import Sequence

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.families import layout
from tfcli.interop.families.layout import CheckpointFamily, Fields, Setting, TensorMap
from tfcli.recipe.model import Activation, ModelSection

_GATED: dict[Activation, Activation] = {"gelu_tanh": "geglu_tanh", "silu": "swiglu", "gelu": "geglu"}  # with a gate
_PROJECTIONS = {name: (name, False) for name in layout.ACTIVATIONS} | {  # feed_forward_proj: its activation and gate
    # "gated-gelu" is the tanh form, as the settings of version 1.1 have it.
    f"gated-{name}": ("gelu_new" if name == "gelu" else name, True)
    for name in layout.ACTIVATIONS
    if layout.ACTIVATIONS[name] in _GATED
}

_WRITTEN: dict[Activation, str] = {"geglu_tanh": "gated-gelu", "swiglu": "gated-silu", "geglu": "gated-gelu_python"}
_WRITTEN = layout.WRITTEN | _WRITTEN
_HEAD, _EMBEDDING = "lm_head.weight", "shared.weight"


def _read_tying(config: CheckpointConfig) -> Fields:
    """Only old files say whether there is one matrix; new ones say true whatever there is, and keep the scale apart."""
    scale = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", True))
    return {"tie_embeddings": scale, "scale_logits": scale}  # unless the tensors say otherwise


_TYING = Setting(
    _read_tying,
    lambda section, _: {"tie_word_embeddings": section.tie_embeddings, "scale_decoder_outputs": section.scale_logits},
)
_TYING_BY_TENSORS = Setting(
    lambda _: {"tie_embeddings": False, "scale_logits": False},  # unless the tensors say otherwise
    lambda section, _: {"tie_word_embeddings": section.tie_embeddings},
)

_PROJECTED = {name[0]: name for name in ("query", "key", "value", "output")}


def _body(section: ModelSection) -> list[TensorMap]:
    inner = {**({"wi_0": "gate", "wi_1": "up"} if section.is_gated else {"wi": "up"}), "wo": "output"}
    of_encoder = [("SelfAttention", "attention", _PROJECTED), ("DenseReluDense", "feed_forward", inner)]
    of_decoder = [of_encoder[0], ("EncDecAttention", "cross_attention", _PROJECTED), of_encoder[1]]
    maps = layout.named({_EMBEDDING: "embedding.weight"})
    for side, sublayers in (("encoder", of_encoder), ("decoder", of_decoder)):
        names: dict[str, str] = {}
        for place, (theirs, ours, parts) in enumerate(sublayers):
            names[f"layer.{place}.layer_norm"] = f"{ours}_residual.norm"
            names |= {f"layer.{place}.{theirs}.{their}": f"{ours}.{our}" for their, our in parts.items()}
        maps += layout.layers(section, f"{side}.block", names, side)
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        norm = {f"{side}.final_layer_norm.weight": f"{side}.final_norm.weight"}
        maps += layout.named({bias: f"{side}.positions.relative_bias.weight", **norm})
    return maps


def _family(
    name: str, model_class: str, usual: str, ending: Setting, form: Fields, without_effect: Sequence[str] = ()
) -> CheckpointFamily:
    """Either family, with its `usual` feed-forward, how head and embeddings belong together, and its own `form`."""

    def read_activation(config: CheckpointConfig) -> Fields:
        name, gated = config.choice("feed_forward_proj", _PROJECTIONS, usual)
        config.fixed("dense_act_fn", name, reason=f"feed_forward_proj stands for {name}")
        config.fixed("is_gated_act", gated, reason=f"feed_forward_proj stands for {gated}")
        return {"activation": _GATED[layout.ACTIVATIONS[name]] if gated else layout.ACTIVATIONS[name]}

    common = {
        "architecture": "encoder-decoder",
        "positions": "t5",
        "norm": "rmsnorm",
        "norm_placement": "pre",
        "attention_score": "dot",
        **layout.UNBIASED,
        "activation": tuple(_WRITTEN),
        "share_embeddings": True,
    }
    return CheckpointFamily(
        name=name,
        settings=(
            *Setting.family(name, model_class),
            *Setting.aliases(hidden_size="d_model", num_attention_heads="num_heads", num_hidden_layers="num_layers"),
            *Setting.aliases(head_dim="d_kv"),
            *layout.BOTH_SIDES,
            *Setting.integers(vocab_size="vocab_size"),
            *Setting.integers(512, n_positions="max_seq_len"),
            *Setting.integers(d_model="d_model", d_kv="head_dim", d_ff="d_ff", num_layers="num_layers"),
            *Setting.integers(lambda config: config.integer("num_layers"), num_decoder_layers="num_decoder_layers"),
            *Setting.integers(num_heads="num_heads"),
            *Setting.integers(32, relative_attention_num_buckets="position_buckets"),
            *Setting.integers(128, relative_attention_max_distance="position_max_distance"),
            *Setting.numbers(1e-6, layer_norm_epsilon="norm_eps"),
            Setting(read_activation, lambda section, _: {"feed_forward_proj": _WRITTEN[section.activation]}),
            # One rate for all places. T5 also drops what leaves the last norms, in training alone; tfcli does not.
            *Setting.numbers(0.1, dropout_rate="dropout embedding_dropout attention_dropout activation_dropout"),
            Setting.constants(initializer_factor=1.0),
            ending,
            Setting.constants(use_cache=True),
            layout.TARGET_TOKENS,
        ),
        form=layout.full_form({**form, **common}, "head_dim", "scale_logits"),
        given={"norm_bias": False, "attention_output_bias": False, "initialization": "t5"},
        # Settings of new weights alone, or written by old versions of the library and read by none. The tensors say
        # whether head and embeddings are one; what this once said of scale has a setting of its own.
        without_effect=("tie_word_embeddings", "initializer_factor", "output_past", *without_effect),
        body=_body,
        head=(_HEAD, _EMBEDDING),
        tied_by_tensors=True,
        repeated=lambda _: dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), _EMBEDDING),
        prefix="",
        heads=(
            # In the files of version 1.0, though their own code adds nothing to the scores of cross-attention.
            r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
        ),
    )


T5 = _family("t5", "T5ForConditionalGeneration", "relu", _TYING, form={})
MT5 = _family(
    "mt5",
    "MT5ForConditionalGeneration",
    "gated-gelu",
    _TYING_BY_TENSORS,
    form={"scale_logits": False},
    without_effect=["tokenizer_class", "scale_decoder_outputs"],
)
