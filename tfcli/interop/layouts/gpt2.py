"""GPT-2 (Radford et al. 2019) and the first GPT (Radford et al. 2018): learned positional embeddings, biases in all
projections, pre-norm in GPT-2 and post-norm in the first.

Their matrices lie in the checkpoint as (in, out), and those of queries, keys and values side by side in one.
"""

from tfcli.interop.layout import BIASED, TOKENS, Layout, Setting, TensorMap, affine, form
from tfcli.recipe.model import Activation, ModelSection

_WITHOUT_EFFECT = (
    # Heads of other tasks.
    "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
    # Written by old versions of the library, read by none.
    "n_special", "predict_special_tokens", "output_past",
)  # fmt: skip

_RATES = (
    Setting.number("resid_pdrop", "dropout", default=0.1),
    Setting.number("embd_pdrop", "embedding_dropout", default=0.1),
    Setting.number("attn_pdrop", "attention_dropout", default=0.1),
    Setting.number("layer_norm_epsilon", "norm_eps", default=1e-5),
    Setting.number("initializer_range", "init_std", default=0.02),
)
_SCORES = Setting(
    lambda config: {"attention_score": "scaled_dot" if config.flag("scale_attn_weights", True) else "dot"},
    lambda section, _: {"scale_attn_weights": section.attention_score == "scaled_dot"},
)
_LAYER = {
    "ln_1": "attention_residual.norm",
    "attn.c_attn": "attention.query attention.key attention.value",
    "attn.c_proj": "attention.output",
    "ln_2": "feed_forward_residual.norm",
    "mlp.c_fc": "feed_forward.up",
    "mlp.c_proj": "feed_forward.output",
}


def _body(section: ModelSection, words: str = "wte", positions: str = "wpe") -> list[TensorMap]:
    maps = [
        TensorMap(f"transformer.{words}.weight", ("embedding.weight",)),
        TensorMap(f"transformer.{positions}.weight", ("embedding.positions",)),
    ]
    for i in range(section.num_layers):
        maps += affine(section, f"transformer.h.{i}", f"stack.layers.{i}", _LAYER, transposed=True)
    return maps


GPT2 = Layout(
    name="gpt2",
    settings=(
        Setting.family("gpt2", "GPT2LMHeadModel"),
        Setting.integer("vocab_size", "vocab_size"),
        Setting.integer("n_positions", "max_seq_len"),
        Setting.alias("n_ctx", "n_positions"),
        Setting.integer("n_embd", "d_model"),
        Setting.integer("n_layer", "num_layers"),
        Setting.integer("n_head", "num_heads"),
        Setting.integer("n_inner", "d_ff", lambda config: 4 * config.integer("n_embd")),
        Setting.activation("activation_function", "gelu_new"),
        *_RATES,
        _SCORES,
        Setting.fixed(
            "scale_attn_by_inverse_layer_idx", False, reason="tfcli scales the scores of all layers alike", written=True
        ),
        Setting.constant("reorder_and_upcast_attn", False),
        Setting.fixed(
            "add_cross_attention",
            False,
            reason="tfcli's decoder has nothing to attend to but its own text",
            written=True,
        ),
        Setting.flag("tie_word_embeddings", "tie_embeddings", True),
        Setting.constant("use_cache", True),
        TOKENS,
    ),
    form=form(
        {
            "architecture": "decoder",
            "positions": "learned",
            "norm": "layernorm",
            "norm_placement": "pre",
            "attention_score": ("scaled_dot", "dot"),
        }
    ),
    given=BIASED | {"initialization": "gpt2"},
    # The order in which scores are scaled and the type they are computed in: rounding, not meaning.
    without_effect=(*_WITHOUT_EFFECT, "summary_last_dropout", "reorder_and_upcast_attn"),
    body=lambda section: [*_body(section), *affine(section, "transformer", "stack", {"ln_f": "final_norm"})],
    head=("lm_head.weight", "transformer.wte.weight"),
    prefix="transformer.",
    constants=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
    heads=(r"score\..*", r"classifier\..*", r"qa_outputs\..*", r"multiple_choice_head\..*"),
)

_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
_WRITTEN: dict[Activation, str] = {"gelu_tanh": "gelu", "relu": "relu", "silu": "silu"}

OPENAI_GPT = Layout(
    name="openai-gpt",
    settings=(
        Setting.family("openai-gpt", "OpenAIGPTLMHeadModel"),
        Setting.integer("vocab_size", "vocab_size"),
        Setting.integer("n_positions", "max_seq_len", 512),
        Setting.alias("n_ctx", "n_positions", 512),
        Setting(lambda config: {"d_ff": 4 * config.integer("n_embd", 768)}),
        Setting.integer("n_embd", "d_model", 768),
        Setting.integer("n_layer", "num_layers", 12),
        Setting.integer("n_head", "num_heads", 12),
        Setting.activation("afn", "gelu", _ACTIVATIONS, _WRITTEN),
        *_RATES,
        Setting.flag("tie_word_embeddings", "tie_embeddings", True),
        TOKENS,
    ),
    form=form(
        {
            "architecture": "decoder",
            "positions": "learned",
            "norm": "layernorm",
            "norm_placement": "post",
            "inner_size": lambda section: section.inner_size == 4 * section.d_model,
            "activation": tuple(_WRITTEN),
        }
    ),
    given=BIASED,
    without_effect=_WITHOUT_EFFECT,
    body=lambda section: _body(section, "tokens_embed", "positions_embed"),
    head=("lm_head.weight", "transformer.tokens_embed.weight"),
    prefix="transformer.",
    constants=(r"transformer\.h\.\d+\.attn\.bias", r"transformer\.position_ids"),
    heads=(r"transformer\.(score|classifier|multiple_choice_head)\..*",),
)
