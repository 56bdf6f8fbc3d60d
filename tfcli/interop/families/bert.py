"""BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019): post-norm encoders with
learned positional embeddings and a head of two steps for masked language modelling. RoBERTa (also XLM-RoBERTa,
CamemBERT) numbers positions from behind the padding's id, its head is always GELU. DistilBERT has no token types."""

from typing import Any

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.families import layout
from tfcli.interop.families.layout import CheckpointFamily, Fields, Names, Setting, TensorMap
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_EXPORTED_TYPES = 2  # rows of zeros for the token types that a run lacks: its tokenizer may number the parts of a pair

_ENCODER = {
    "architecture": "encoder",
    "positions": "learned",
    "embedding_norm": True,
    "norm": "layernorm",
    "norm_placement": "post",
    "head": ("transform", "none"),
}
_FREE = ("token_types", "head_bias")
_GIVEN = layout.BIASED | {"head": "transform", "head_bias": True}

_LEARNED_ALONE = "tfcli knows BERT with learned positions alone"
_AS_ENCODER = "tfcli knows BERT as an encoder"
_OWN_TEXT_ALONE = "tfcli's encoder has nothing to attend to but its own text"
_SIZES = (
    Setting(
        lambda config: {"token_types": config.integer("type_vocab_size", 2)},
        lambda section, _: {"type_vocab_size": section.token_types or _EXPORTED_TYPES},
    ),
    Setting.fixed("position_embedding_type", "absolute", reason=_LEARNED_ALONE, written=True),
    Setting.fixed("is_encoder_decoder", False, reason=_AS_ENCODER),
    Setting.fixed("directionality", "bidi", reason="tfcli's encoder sees the text on both sides"),
    *Setting.integers(hidden_size="d_model", num_hidden_layers="num_layers", num_attention_heads="num_heads"),
    *Setting.integers(intermediate_size="d_ff"),
)
_REST = (
    *Setting.numbers(0.1, hidden_dropout_prob="dropout embedding_dropout"),
    *Setting.numbers(0.1, attention_probs_dropout_prob="attention_dropout"),
    *Setting.numbers(1e-12, layer_norm_eps="norm_eps"),
    *Setting.numbers(0.02, initializer_range="init_std"),
    Setting.fixed("is_decoder", False, reason=_AS_ENCODER, written=True),
    Setting.fixed("add_cross_attention", False, reason=_OWN_TEXT_ALONE, written=True),
    Setting.tying(default=True),
    Setting.constants(use_cache=True),
    layout.TOKENS,
)
_WITHOUT_EFFECT = (
    # The head of next-sentence prediction.
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    # Written by old versions of the library, read by none.
    "output_past", "language", "name",
)  # fmt: skip
_LAYER = {
    **{f"attention.self.{name}": f"attention.{name}" for name in ("query", "key", "value")},
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_residual.norm",
    "intermediate.dense": "feed_forward.up",
    "output.dense": "feed_forward.output",
    "output.LayerNorm": "feed_forward_residual.norm",
}


def _embeddings(base: str) -> list[TensorMap]:
    names = {"word_embeddings": "weight", "position_embeddings": "positions", "token_type_embeddings": "token_types"}
    return [
        *layout.named({f"{base}.embeddings.{theirs}.weight": f"embedding.{ours}" for theirs, ours in names.items()}),
        *layout.affine(f"{base}.embeddings.", "embedding", {"LayerNorm": "norm"}),
    ]


def _family(name: str, *settings: Setting, head: str, transform: Names, form: Fields, **rest: Any) -> CheckpointFamily:
    """BERT or RoBERTa. `transform` are the names of the head's first step."""

    def body(section: ModelSection) -> list[TensorMap]:
        # Only where the matrices are tied are the two biases one. It is the decoder's that is added, and read last.
        biases = [f"{head}.bias", *[f"{head}.decoder.bias"] * (not section.tie_embeddings)]
        return [
            *_embeddings(name),
            *layout.layers(section, f"{name}.encoder.layer", _LAYER),
            *layout.affine(f"{head}.", "head", transform),
            *layout.named(dict.fromkeys(biases, "head.bias")),
        ]

    return CheckpointFamily(
        name=name,
        settings=(*settings, *_REST),
        form=form,
        given=_GIVEN,
        without_effect=_WITHOUT_EFFECT,
        body=body,
        head=(f"{head}.decoder.weight", f"{name}.embeddings.word_embeddings.weight"),
        repeated=lambda section: {f"{head}.decoder.bias": f"{head}.bias"} if section.tie_embeddings else {},
        prefix=f"{name}.",
        headless=f"{head}.",
        filled=lambda section: {"token_types": section.token_types or _EXPORTED_TYPES},
        constants=(rf"{name}\.embeddings\.(position_ids|token_type_ids)",),
        heads=(rf"{name}\.pooler\..*",),
        headless_lacks=("pooler.dense.weight", "pooler.dense.bias"),
        **rest,
    )


BERT = _family(
    "bert",
    *Setting.family("bert", "BertForMaskedLM"),
    *Setting.integers(vocab_size="vocab_size", max_position_embeddings="max_seq_len"),
    *_SIZES,
    Setting.activation("hidden_act", "gelu"),
    head="cls.predictions",
    transform={"transform.dense": "transform", "transform.LayerNorm": "norm"},
    form=layout.full_form(_ENCODER, *_FREE),
    renames={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)


def _numbered(config: CheckpointConfig) -> Fields:
    rows, offset = config.integer("max_position_embeddings"), int(config.number("pad_token_id", 1)) + 1
    if rows <= offset:
        config.fixed("max_position_embeddings", reason=f"positions are numbered from pad_token_id + 1 = {offset} on")
    return {"position_offset": offset, "max_seq_len": rows - offset}


def _write_numbered(section: ModelSection, roles: TokenRoles) -> Fields:
    if section.position_offset != roles.pad + 1:
        raise layout.UnsupportedVariantError("position_offset", section.position_offset)
    return {"max_position_embeddings": section.max_seq_len + section.position_offset}


ROBERTA = _family(
    "roberta",
    *Setting.family("roberta", "RobertaForMaskedLM"),
    *Setting.integers(vocab_size="vocab_size"),
    Setting(_numbered, _write_numbered),
    *_SIZES,
    Setting.activation("hidden_act", "gelu", {"gelu": "gelu", "gelu_python": "gelu"}),
    head="lm_head",
    transform={"dense": "transform", "layer_norm": "norm"},
    also_named=("xlm-roberta", "camembert"),
    form=layout.full_form(_ENCODER, *_FREE, "position_offset", "activation", last={"activation": "gelu"}),
)

_DISTILBERT_LAYER = {
    **layout.projections("attention.{}_lin", "out"),
    "sa_layer_norm": "attention_residual.norm",
    "ffn.lin1": "feed_forward.up",
    "ffn.lin2": "feed_forward.output",
    "output_layer_norm": "feed_forward_residual.norm",
}

DISTILBERT = CheckpointFamily(
    name="distilbert",
    settings=(
        *Setting.family("distilbert", "DistilBertForMaskedLM"),
        *Setting.aliases(hidden_size="dim", num_attention_heads="n_heads", num_hidden_layers="n_layers"),
        *Setting.integers(vocab_size="vocab_size", max_position_embeddings="max_seq_len", dim="d_model"),
        *Setting.integers(n_layers="num_layers", n_heads="num_heads", hidden_dim="d_ff"),
        Setting.activation("activation", "gelu"),
        *Setting.numbers(0.1, dropout="dropout embedding_dropout", attention_dropout="attention_dropout"),
        *Setting.numbers(0.02, initializer_range="init_std"),
        Setting.tying(default=True),
        layout.TOKENS,
    ),
    form=layout.full_form(_ENCODER, *_FREE, last={"token_types": 0, "norm_eps": 1e-12}),
    given=_GIVEN,
    without_effect=(
        # How the table of positions began, which is in the file all the same.
        "sinusoidal_pos_embds",
        # Of heads for other tasks, and written by old versions of the library.
        "qa_dropout", "seq_classif_dropout", "tie_weights_", "output_past",
    ),
    body=lambda section: [
        *_embeddings("distilbert"),
        *layout.layers(section, "distilbert.transformer.layer", _DISTILBERT_LAYER),
        *layout.affine("", "head", {"vocab_transform": "transform", "vocab_layer_norm": "norm"}),
        *layout.named({"vocab_projector.bias": "head.bias"}),
    ],
    head=("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    prefix="distilbert.",
    headless="vocab_",
    constants=(r"distilbert\.embeddings\.position_ids",),
)  # fmt: skip
