"""BERT (Devlin et al. 2019): learned positions and token types, norms after the sublayers, a head of two steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts.parts import affine, norm, written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

WITHOUT_EFFECT = (
    # The head of next-sentence prediction.
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    # Written by old versions of the library, read by none.
    "output_past", "language", "name",
)  # fmt: skip

_HEADLESS = "cls.predictions."
_WORDS = "bert.embeddings.word_embeddings.weight"
_EXPORTED_TYPES = 2
"""Rows of zeros that stand for the token types a run does not have: its tokenizer may number the parts of a pair."""


def _read(config: CheckpointConfig) -> ModelSection:
    section = read(config)
    config.finish(WITHOUT_EFFECT)
    return section


def read(config: CheckpointConfig) -> ModelSection:
    """The settings that BERT and RoBERTa share."""
    config.fixed("position_embedding_type", "absolute", reason="tfcli knows BERT with learned positions alone")
    config.fixed("is_decoder", False, reason="tfcli knows BERT as an encoder")
    config.fixed("is_encoder_decoder", False, reason="tfcli knows BERT as an encoder")
    config.fixed("add_cross_attention", False, reason="tfcli's encoder has nothing to attend to but its own text")
    config.fixed("directionality", "bidi", reason="tfcli's encoder sees the text on both sides")
    dropout = config.number("hidden_dropout_prob", 0.1)
    return replace(
        PLAIN,
        architecture="encoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=config.integer("hidden_size"),
        num_layers=config.integer("num_hidden_layers"),
        num_heads=config.integer("num_attention_heads"),
        d_ff=config.integer("intermediate_size"),
        positions="learned",
        token_types=config.integer("type_vocab_size", 2),
        embedding_norm=True,
        norm="layernorm",
        norm_bias=True,
        norm_placement="post",
        norm_eps=config.number("layer_norm_eps", 1e-12),
        attention_bias=True,
        attention_output_bias=True,
        activation=config.choice("hidden_act", ACTIVATIONS, "gelu"),
        feed_forward_bias=True,
        tie_embeddings=config.flag("tie_word_embeddings", True),
        head="transform",
        head_bias=True,
        dropout=dropout,
        embedding_dropout=dropout,
        attention_dropout=config.number("attention_probs_dropout_prob", 0.1),
        initialization="bert",
        init_std=config.number("initializer_range", 0.02),
    )


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    return body(section, "bert") if section.head == "none" else [*body(section, "bert"), *_head(section)]


def body(section: ModelSection, base: str) -> list[TensorMap]:
    """Embeddings and layers, under names that begin with that of the family."""
    size, types = section.d_model, section.token_types or _EXPORTED_TYPES
    embeddings = f"{base}.embeddings"
    maps = [
        TensorMap(f"{embeddings}.word_embeddings.weight", ("embedding.weight",)),
        TensorMap(f"{embeddings}.position_embeddings.weight", ("embedding.positions",)),
        TensorMap(
            f"{embeddings}.token_type_embeddings.weight", ("embedding.token_types",), absent=(0.0, (types, size))
        ),
        *norm(f"{embeddings}.LayerNorm", "embedding.norm", size),
    ]
    for i in range(section.num_layers):
        maps += _layer(f"{base}.encoder.layer.{i}", f"stack.layers.{i}", section)
    return maps


def _layer(theirs: str, ours: str, section: ModelSection) -> list[TensorMap]:
    size = section.d_model
    return [
        *affine(f"{theirs}.attention.self.query", f"{ours}.attention.query", size=size),
        *affine(f"{theirs}.attention.self.key", f"{ours}.attention.key", size=size),
        *affine(f"{theirs}.attention.self.value", f"{ours}.attention.value", size=size),
        *affine(f"{theirs}.attention.output.dense", f"{ours}.attention.output", size=size),
        *norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.attention_residual.norm", size),
        *affine(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.up", size=section.inner_size),
        *affine(f"{theirs}.output.dense", f"{ours}.feed_forward.output", size=size),
        *norm(f"{theirs}.output.LayerNorm", f"{ours}.feed_forward_residual.norm", size),
    ]


def _head(section: ModelSection) -> list[TensorMap]:
    size, transform = section.d_model, f"{_HEADLESS}transform"
    bias = (0.0, (section.vocab_size or 0,))
    maps = [
        *affine(f"{transform}.dense", "head.transform", size=size),
        *norm(f"{transform}.LayerNorm", "head.norm", size),
        TensorMap(f"{_HEADLESS}bias", ("head.bias",), absent=bias),
    ]
    if not section.tie_embeddings:
        # Only where the matrices are tied are the two biases one. It is the decoder's that is added, and read last.
        maps += [
            TensorMap(f"{_HEADLESS}decoder.weight", ("head.weight",)),
            TensorMap(f"{_HEADLESS}decoder.bias", ("head.bias",), absent=bias),
        ]
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    if section.head == "none" or not section.tie_embeddings:
        return {}
    return {f"{_HEADLESS}decoder.weight": _WORDS, f"{_HEADLESS}decoder.bias": f"{_HEADLESS}bias"}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    check(section, "BERT")
    return write(section, roles, "bert", "Bert")


def write(section: ModelSection, roles: TokenRoles, model_type: str, classes: str) -> dict[str, Any]:
    """config.json of BERT or RoBERTa.

    Args:
        classes: what the names of the family's classes begin with.
    """
    return {
        "model_type": model_type,
        "architectures": [f"{classes}{'Model' if section.head == 'none' else 'ForMaskedLM'}"],
        "vocab_size": section.vocab_size,
        "max_position_embeddings": section.max_seq_len,
        "type_vocab_size": section.token_types or _EXPORTED_TYPES,
        "position_embedding_type": "absolute",
        "hidden_size": section.d_model,
        "num_hidden_layers": section.num_layers,
        "num_attention_heads": section.num_heads,
        "intermediate_size": section.inner_size,
        "hidden_act": WRITTEN[section.activation],
        "hidden_dropout_prob": section.dropout,
        "attention_probs_dropout_prob": section.attention_dropout_rate,
        "layer_norm_eps": section.norm_eps,
        "initializer_range": section.init_std,
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": section.tie_embeddings,
        "use_cache": True,
        **written_tokens(roles),
    }


def check(section: ModelSection, family: str, own: Collection[str] = ()) -> None:
    """Refuse what neither BERT nor RoBERTa has.

    Args:
        family: its name, for the reason.
        own: settings that it has in another form than most: it checks them itself.

    Raises:
        Inexpressible: names the first setting in the way.
    """
    require(section, f"{family} is an encoder", architecture="encoder")
    require(section, f"{family} learns its positions", positions="learned")
    require(section, f"{family} normalises its embeddings", embedding_norm=True)
    require(section, f"{family} has LayerNorm", norm="layernorm")
    require(section, f"{family} normalises after every sublayer", norm_placement="post")
    require(section, f"{family}'s head is dense, activation and norm, then the matrix", head=("transform", "none"))
    check_plain(section, family, own=("token_types", "embedding_norm", "head", "head_bias", *own))


LAYOUT = Layout(
    name="bert",
    model_types=("bert",),
    prefix="bert.",
    read=_read,
    tensors=_tensors,
    write=_write,
    headless=_HEADLESS,
    copies=_copies,
    constants=(r"bert\.embeddings\.(position_ids|token_type_ids)",),
    heads=(r"bert\.pooler\..*", r"cls\.seq_relationship\..*", r"classifier\..*", r"qa_outputs\..*"),
    headless_lacks=("pooler.dense.weight", "pooler.dense.bias"),
    renames={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
