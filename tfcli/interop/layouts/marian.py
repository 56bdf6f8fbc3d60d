"""Marian (Junczys-Dowmunt et al. 2018), as the OPUS-MT models have it: sinusoidal positions, all sines before all
cosines, and embeddings that the two sides may share or not."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bart_family
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = ("extra_pos_embeddings",)
"""The number of a token in old files; the table of positions, which is computed, begins at 0 all the same."""

_SHARED = "model.shared.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"


def _read(config: CheckpointConfig) -> ModelSection:
    vocab_size = config.integer("vocab_size")
    config.fixed("decoder_vocab_size", vocab_size, reason=f"vocab_size is {vocab_size}: tfcli has one for both sides")
    config.fixed("normalize_embedding", False, reason="tfcli reads Marian with embeddings as they are")
    config.fixed("static_position_embeddings", True, reason="tfcli reads Marian with sinusoidal positions")
    share, tie = config.flag("share_encoder_decoder_embeddings", True), config.flag("tie_word_embeddings", True)
    if share:
        config.fixed("tie_word_embeddings", True, reason="with share_encoder_decoder_embeddings the head shares too")
    return bart_family.read(
        config,
        _WITHOUT_EFFECT,
        positions="sinusoidal",
        position_layout="halves",
        position_base=10_000.0,
        tie_embeddings=tie,
        share_embeddings=share,
    )


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    if section.share_embeddings:
        maps = [TensorMap(_SHARED, ("embedding.weight",))]
    else:
        maps = [TensorMap(_SOURCE, ("embedding.weight",)), TensorMap(_TARGET, ("target_embedding.weight",))]
    if not section.tie_embeddings:
        maps.append(TensorMap("lm_head.weight", ("head.weight",)))
    return maps + bart_family.tensors(section)


def _copies(section: ModelSection) -> Mapping[str, str]:
    if section.share_embeddings:
        return dict.fromkeys((_SOURCE, _TARGET, "lm_head.weight"), _SHARED)
    return {"lm_head.weight": _TARGET} if section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "decoder_vocab_size": section.vocab_size,
        "share_encoder_decoder_embeddings": section.share_embeddings,
        "tie_word_embeddings": section.tie_embeddings,
        **bart_family.write(section, roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "Marian is an encoder-decoder", architecture="encoder-decoder")
    bart_family.check(section, "Marian")
    require(section, "Marian has sinusoidal positions", positions="sinusoidal", position_scaling=1.0)
    require(section, "Marian has all sines before all cosines", position_layout="halves")
    require(section, "Marian's wavelengths run to 2π · 10,000", position_base=10_000.0)
    if section.share_embeddings:
        require(section, "Marian's sides share one matrix with the head, or none with each other", tie_embeddings=True)


LAYOUT = Layout(
    name="marian",
    model_types=("marian",),
    prefix="model.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    constants=(*bart_family.CONSTANTS, r"model\.(encoder|decoder)\.embed_positions\.weight"),
    heads=bart_family.HEADS,
)
