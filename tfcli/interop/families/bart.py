"""BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018): Vaswani et al.'s encoder-decoder (2017), post-norm
with biases everywhere, under the same names of settings and tensors. BART learns its positional embeddings, normalises
embeddings, and has one matrix for both sides and the head. Marian, as the OPUS-MT models have it, has sinusoidal
positional encoding, all sines before all cosines, and embeddings that the two sides may share or not."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.families import layout
from tfcli.interop.families.layout import CheckpointFamily, Fields, Setting, TensorMap
from tfcli.layers.positions import sinusoidal_encoding
from tfcli.recipe.model import ModelSection

_OFFSET = 2  # rows before BART's first position, which nothing reads: a leftover of the code that it was trained with
_SHARED, _HEAD = "model.shared.weight", "lm_head.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SIDES = {"encoder": "embedding", "decoder": "target_embedding"}
_TABLES = {f"model.{side}.embed_positions.weight": f"{ours}.positions" for side, ours in _SIDES.items()}
_GIVEN = layout.BIASED | {"head_bias": True}
_ROUNDING = 2.0**-8  # how far a table of positions in sixteen bits, as most of Marian's files have, is off the formula
_CONSTANTS = (r"model\.(encoder|decoder)\.version",)  # tensors of old files that number the format

_WITHOUT_EFFECT = (
    # Rates at which training leaves out whole layers.
    "encoder_layerdrop", "decoder_layerdrop",
    # The head's bias is read whatever this says.
    "add_bias_logits",
    # Of generation, and of a head for another task.
    "force_bos_token_to_be_generated", "classif_dropout", "output_past",
    # Left behind by the training of distilled checkpoints.
    "replacing_rate", "save_step", "student_decoder_layers", "student_encoder_layers",
)  # fmt: skip


def _on_both_sides(name: str, of: str) -> Setting:
    """A size that tfcli's sides have alike."""
    names = first, second = f"encoder_{name}", f"decoder_{name}"

    def read(config: CheckpointConfig) -> int:
        value, _ = map(config.integer, names)
        config.fixed(second, value, reason=f"{first} is {value}, where tfcli's sides have the same")
        return value

    return Setting.of(names, [of], read)


_OTHER_NORMS = ("normalize_before", "do_blenderbot_90_layernorm", "add_final_layer_norm")
_NO_OTHER_NORM = "tfcli reads this family with a norm after every sublayer and no other"
_SETTINGS = (
    *(Setting.fixed(name, False, reason=_NO_OTHER_NORM) for name in _OTHER_NORMS),
    *Setting.aliases(hidden_size="d_model", num_hidden_layers="encoder_layers"),
    *Setting.aliases(num_attention_heads="encoder_attention_heads"),
    *layout.BOTH_SIDES,
    *Setting.integers(vocab_size="vocab_size", max_position_embeddings="max_seq_len", d_model="d_model"),
    *Setting.integers(encoder_layers="num_layers", decoder_layers="num_decoder_layers"),
    _on_both_sides("attention_heads", "num_heads"),
    _on_both_sides("ffn_dim", "d_ff"),
    Setting.activation("activation_function", "gelu"),
    Setting(
        lambda config: {"scale_embeddings": config.flag("scale_embedding", False)},
        lambda section, _: {"scale_embedding": section.embedding_scale != 1},
    ),
    *Setting.numbers(0.1, dropout="dropout embedding_dropout"),
    *Setting.numbers(0.0, attention_dropout="attention_dropout", activation_dropout="activation_dropout"),
    Setting.constants(encoder_layerdrop=0.0, decoder_layerdrop=0.0),
    *Setting.numbers(0.02, init_std="init_std"),
    Setting.constants(use_cache=True, forced_eos_token_id=None),  # generation ends where the model says so
    layout.TARGET_TOKENS,
)

LAYER = {  # one layer, as OPT has it too
    "self_attn_layer_norm": "attention_residual.norm",
    **layout.projections("self_attn.{}_proj", "out"),
    "fc1": "feed_forward.up",
    "fc2": "feed_forward.output",
    "final_layer_norm": "feed_forward_residual.norm",
}
_CROSS = layout.projections("encoder_attn.{}_proj", "out", "cross_attention")
_CROSS = {"encoder_attn_layer_norm": "cross_attention_residual.norm"} | _CROSS


def _layers(section: ModelSection) -> list[TensorMap]:
    """The layers of both sides, and the head's bias."""
    return [
        *layout.layers(section, "model.encoder.layers", LAYER, "encoder"),
        *layout.layers(section, "model.decoder.layers", LAYER | _CROSS, "decoder"),
        TensorMap("final_logits_bias", ("head.bias",), theirs_shape=(1, section.vocab_size or 0), optional=True),
    ]


def _form(*free: str, last: Fields) -> dict[str, Any]:
    first = {"architecture": "encoder-decoder", "norm": "layernorm", "norm_eps": 1e-5, "norm_placement": "post"}
    return layout.full_form(first, "scale_embeddings", "head_bias", *free, last=last)


def _bart_body(section: ModelSection) -> list[TensorMap]:
    maps = layout.named({_SHARED: "embedding.weight", **_TABLES})
    for side, ours in _SIDES.items():
        maps += layout.affine(f"model.{side}.", ours, {"layernorm_embedding": "norm"})
    return [*maps, *_layers(section)]


_AS = "tfcli reads BART with"

BART = CheckpointFamily(
    name="bart",
    settings=(
        *Setting.family("bart", "BartForConditionalGeneration"),
        Setting.fixed("tie_word_embeddings", True, reason=f"{_AS} one matrix for embeddings and head", written=True),
        Setting.constants(normalize_before=False),  # CTranslate2 asks for it
        Setting.fixed("normalize_embedding", True, reason=f"{_AS} normalised embeddings"),
        Setting.fixed("static_position_embeddings", False, reason=f"{_AS} learned positions"),
        Setting.fixed("extra_pos_embeddings", _OFFSET, reason=f"BART's positions are read from row {_OFFSET} on"),
        *_SETTINGS,
    ),
    form=_form(
        *("position_offset", "embedding_norm"),
        last={"positions": "learned", "position_offset": _OFFSET}
        | dict.fromkeys(("embedding_norm", "share_embeddings", "tie_embeddings"), True),
    ),
    given=_GIVEN,
    without_effect=_WITHOUT_EFFECT,
    body=_bart_body,
    head=(_HEAD, _SHARED),
    repeated=lambda _: dict.fromkeys((_SOURCE, _TARGET), _SHARED),
    prefix="model.",
    constants=_CONSTANTS,
)


def _read_sharing(config: CheckpointConfig) -> Fields:
    vocab_size = config.integer("vocab_size")
    config.fixed("decoder_vocab_size", vocab_size, reason=f"vocab_size is {vocab_size}: tfcli has one for both sides")
    if config.flag("share_encoder_decoder_embeddings", True) and not config.flag("tie_word_embeddings", True):
        config.fixed("tie_word_embeddings", True, reason="with share_encoder_decoder_embeddings the head shares too")
    return {}


def _settle(section: ModelSection, tensors: Mapping[str, Tensor]) -> ModelSection:
    """Tables that are not the sinusoids are taken from the file, as learned ones."""
    formula = sinusoidal_encoding(section.max_seq_len, section.d_model, layout="halves")
    tables = [tensors[name] for name in _TABLES if name in tensors]
    if all(table.shape == formula.shape and (table - formula).abs().max() <= _ROUNDING for table in tables):
        return section
    return replace(section, positions="learned", position_layout=None)


def _marian_body(section: ModelSection) -> list[TensorMap]:
    own = {_SOURCE: "embedding.weight", _TARGET: "target_embedding.weight"}
    return layout.named(({_SHARED: own[_SOURCE]} if section.share_embeddings else own) | _TABLES) + _layers(section)


MARIAN = CheckpointFamily(
    name="marian",
    settings=(
        *Setting.family("marian", "MarianMTModel"),
        Setting(_read_sharing, lambda section, _: {"decoder_vocab_size": section.vocab_size}),
        Setting.flag("share_encoder_decoder_embeddings", "share_embeddings", default=True),
        Setting.tying(default=True),
        Setting.fixed("normalize_embedding", False, reason="tfcli reads Marian with embeddings as they are"),
        Setting.fixed("static_position_embeddings", True, reason="tfcli reads Marian with sinusoidal positions"),
        *_SETTINGS,
    ),
    form=_form(
        last={
            "positions": ("sinusoidal", "learned"),
            "position_scaling": lambda section: section.positions == "learned" or section.position_scaling == 1.0,
            "position_layout": lambda section: section.positions == "learned" or section.layout == "halves",
            "position_base": lambda section: section.positions == "learned" or section.position_base == 10_000.0,
            "tie_embeddings": lambda section: section.tie_embeddings or not section.share_embeddings,
        }
    ),
    given={**_GIVEN, "positions": "sinusoidal", "position_layout": "halves", "position_base": 10_000.0},
    # The number of a token in old files; the table of positions, which is computed, begins at 0 all the same.
    without_effect=(*_WITHOUT_EFFECT, "extra_pos_embeddings"),
    body=_marian_body,
    head=(_HEAD, _TARGET),
    repeated=lambda section: dict.fromkeys((_SOURCE, _TARGET, _HEAD) if section.share_embeddings else (), _SHARED),
    prefix="model.",
    settle=_settle,
    constants=(*_CONSTANTS, *map(re.escape, _TABLES)),
)
