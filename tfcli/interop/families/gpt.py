"""GPT-2 and the first GPT (Radford et al. 2018, 2019), GPT-NeoX with Pythia (2022), OPT (Zhang et al. 2022). Their
matrices lie in the checkpoint as (in, out), and those of queries, keys and values side by side in one."""

import math

from tfcli.interop.families import bart, layout, llama
from tfcli.interop.families.layout import CheckpointFamily, Fields, Setting, TensorMap
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = (
    # Heads of other tasks.
    "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
    # Written by old versions of the library, read by none.
    "n_special", "predict_special_tokens", "output_past",
)  # fmt: skip

_SCALED_ALIKE = "tfcli scales the scores of all layers alike"
_OWN_TEXT_ALONE = "tfcli's decoder has nothing to attend to but its own text"
_DECODER: Fields = {"architecture": "decoder", "positions": "learned", "norm": "layernorm"}
_RATES = (
    *Setting.numbers(0.1, resid_pdrop="dropout", embd_pdrop="embedding_dropout", attn_pdrop="attention_dropout"),
    *Setting.numbers(1e-5, layer_norm_epsilon="norm_eps"),
    *Setting.numbers(0.02, initializer_range="init_std"),
)
_TIED = (
    Setting.tying(default=True),
    Setting.constants(use_cache=True),
    layout.TOKENS,
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
    tables = {words: "weight", positions: "positions"}
    maps = layout.named({f"transformer.{theirs}.weight": f"embedding.{ours}" for theirs, ours in tables.items()})
    return [*maps, *layout.layers(section, "transformer.h", _LAYER, transposed=True)]


GPT2 = CheckpointFamily(
    name="gpt2",
    settings=(
        *Setting.family("gpt2", "GPT2LMHeadModel"),
        *Setting.integers(vocab_size="vocab_size", n_positions="max_seq_len"),
        *Setting.aliases(n_ctx="n_positions"),
        *Setting.integers(n_embd="d_model", n_layer="num_layers", n_head="num_heads"),
        *Setting.integers(lambda config: 4 * config.integer("n_embd"), n_inner="d_ff"),
        Setting.activation("activation_function", "gelu_new"),
        *_RATES,
        Setting.either("scale_attn_weights", "attention_score", "scaled_dot", "dot"),
        Setting.fixed("scale_attn_by_inverse_layer_idx", False, reason=_SCALED_ALIKE, written=True),
        Setting.constants(reorder_and_upcast_attn=False),
        Setting.fixed("add_cross_attention", False, reason=_OWN_TEXT_ALONE, written=True),
        *_TIED,
    ),
    form=layout.full_form({**_DECODER, "norm_placement": "pre", "attention_score": ("scaled_dot", "dot")}),
    given=layout.BIASED | {"initialization": "gpt2"},
    # The order in which scores are scaled and the type they are computed in: rounding, not meaning.
    without_effect=(*_WITHOUT_EFFECT, "summary_last_dropout", "reorder_and_upcast_attn"),
    body=lambda section: [*_body(section), *layout.affine("transformer.", "stack", {"ln_f": "final_norm"})],
    head=("lm_head.weight", "transformer.wte.weight"),
    prefix="transformer.",
    constants=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
)

_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
_WRITTEN: dict[Activation, str] = {"gelu_tanh": "gelu", "relu": "relu", "silu": "silu"}
_OWN_FEED_FORWARD: Fields = {
    "inner_size": lambda section: section.inner_size == 4 * section.d_model,
    "activation": tuple(_WRITTEN),
}

OPENAI_GPT = CheckpointFamily(
    name="openai-gpt",
    settings=(
        *Setting.family("openai-gpt", "OpenAIGPTLMHeadModel"),
        *Setting.integers(vocab_size="vocab_size"),
        *Setting.integers(512, n_positions="max_seq_len"),
        *Setting.aliases(512, n_ctx="n_positions"),
        Setting(lambda config: {"d_ff": 4 * config.integer("n_embd", 768)}),
        *Setting.integers(768, n_embd="d_model"),
        *Setting.integers(12, n_layer="num_layers", n_head="num_heads"),
        Setting.activation("afn", "gelu", _ACTIVATIONS, _WRITTEN),
        *_RATES,
        Setting.tying(default=True),
        layout.TOKENS,
    ),
    form=layout.full_form({**_DECODER, "norm_placement": "post", **_OWN_FEED_FORWARD}),
    given=layout.BIASED,
    without_effect=_WITHOUT_EFFECT,
    body=lambda section: _body(section, "tokens_embed", "positions_embed"),
    head=("lm_head.weight", "transformer.tokens_embed.weight"),
    prefix="transformer.",
    constants=(r"transformer\.h\.\d+\.attn\.bias", r"transformer\.position_ids"),
    heads=(r"transformer\.(score|classifier|multiple_choice_head)\..*",),
)


def _write_rotation(section: ModelSection, _: TokenRoles) -> Fields:
    share = section.turned_size / section.size_per_head
    while int(section.size_per_head * share) < section.turned_size:  # as the library rounds
        share = math.nextafter(share, 2)
    rope = {**llama.write_rotation(section), "partial_rotary_factor": share}
    return {"rope_parameters": rope, "rotary_emb_base": section.position_base, "rotary_pct": share}


_GPT_NEOX_LAYER = {
    "input_layernorm": "attention_residual.norm",
    "post_attention_layernorm": "feed_forward_residual.norm",
    "mlp.dense_h_to_4h": "feed_forward.up",
    "mlp.dense_4h_to_h": "feed_forward.output",
    "attention.dense": "attention.output",
}
_JOINED = {"attention.query_key_value": "attention.query attention.key attention.value"}
_FORM: Fields = {"architecture": "decoder", **llama.ROTARY, "norm": "layernorm", "norm_placement": "pre"}

GPT_NEOX = CheckpointFamily(
    name="gpt_neox",
    settings=(
        *Setting.family("gpt_neox", "GPTNeoXForCausalLM"),
        *Setting.integers(vocab_size="vocab_size", max_position_embeddings="max_seq_len", hidden_size="d_model"),
        *Setting.integers(num_hidden_layers="num_layers", num_attention_heads="num_heads", intermediate_size="d_ff"),
        Setting.activation("hidden_act", "gelu"),
        Setting(lambda config: llama.read_rotation(config, "rotary_emb_base", ("rotary_pct", 0.25)), _write_rotation),
        Setting.flag("use_parallel_residual", "parallel_residual", default=True),
        *Setting.numbers(1e-5, layer_norm_eps="norm_eps"),
        Setting.flag("attention_bias", "attention_bias", "attention_output_bias", default=True),
        *Setting.numbers(0.0, attention_dropout="attention_dropout", hidden_dropout="dropout embedding_dropout"),
        *Setting.numbers(0.02, initializer_range="init_std"),
        Setting.tying(default=False),
        Setting.constants(use_cache=True),
        layout.TOKENS,
    ),
    form=layout.full_form({**_FORM, "attention_output_bias": llama.alike_biases}, "parallel_residual"),
    given={"feed_forward_bias": True},
    body=lambda section: [
        *layout.named({"gpt_neox.embed_in.weight": "embedding.weight"}),
        *layout.affine("gpt_neox.", "stack", {"final_layer_norm": "final_norm"}),
        *layout.layers(section, "gpt_neox.layers", _GPT_NEOX_LAYER),
        *layout.layers(section, "gpt_neox.layers", _JOINED, groups=section.num_heads),
    ],
    head=("embed_out.weight", "gpt_neox.embed_in.weight"),
    prefix="gpt_neox.",
    constants=(r"gpt_neox\.(layers\.\d+\.attention\.)?(bias|masked_bias|rotary_emb\.inv_freq)",),
    renames={"lm_head.weight": "embed_out.weight"},
)


def _is_biased(section: ModelSection) -> bool:
    return section.attention_bias or section.has_output_bias or section.feed_forward_bias


def _opt_body(section: ModelSection) -> list[TensorMap]:
    embedding = {"embed_tokens.weight": "weight", "embed_positions.weight": "positions"}
    maps = layout.named({f"model.decoder.{theirs}": f"embedding.{ours}" for theirs, ours in embedding.items()})
    maps += layout.layers(section, "model.decoder.layers", bart.LAYER)
    return maps + layout.affine("model.decoder.", "stack", {"final_layer_norm": "final_norm"})


_ONE_SIZE = "tfcli's embeddings are as large as its layers' vectors"
_LAST_NORM = "tfcli's layers with a norm before have one after the last"
OPT = CheckpointFamily(
    name="opt",
    settings=(
        *Setting.family("opt", "OPTForCausalLM"),
        *Setting.integers(vocab_size="vocab_size", max_position_embeddings="max_seq_len", hidden_size="d_model"),
        *Setting.aliases(reason=_ONE_SIZE, word_embed_proj_dim="hidden_size"),
        Setting(write=lambda section, _: {"word_embed_proj_dim": section.d_model}),
        Setting.fixed("_remove_final_layer_norm", False, reason=_LAST_NORM),
        *Setting.integers(num_hidden_layers="num_layers", num_attention_heads="num_heads", ffn_dim="d_ff"),
        Setting.activation("activation_function", "relu"),
        Setting.either("do_layer_norm_before", "norm_placement", "pre", "post"),
        Setting.flag("layer_norm_elementwise_affine", "norm_affine", "norm_bias", default=True),
        Setting(
            lambda config: dict.fromkeys(layout.BIASED, config.flag("enable_bias", True)),
            lambda section, _: {"enable_bias": _is_biased(section)},
        ),
        *Setting.numbers(0.1, dropout="dropout"),
        *Setting.numbers(0.0, attention_dropout="attention_dropout"),
        *Setting.numbers(0.02, init_std="init_std"),
        *_TIED,
    ),
    form=layout.full_form(_DECODER, last={"position_offset": 2, "norm_eps": 1e-5}),
    without_effect=("layerdrop",),  # acts in training alone
    body=_opt_body,
    # One switch for the biases of all projections, and one for all norms.
    filled=lambda section: (
        dict.fromkeys(layout.BIASED, _is_biased(section))
        | dict.fromkeys(("norm_affine", "norm_bias"), section.norm_affine)
    ),
    head=("lm_head.weight", "model.decoder.embed_tokens.weight"),
    prefix="model.",
)
