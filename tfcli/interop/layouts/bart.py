"""BART (Lewis et al. 2020): learned positions, normalised embeddings, one matrix for both sides and the head."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bart_family
from tfcli.interop.layouts.parts import norm
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_OFFSET = 2
"""Rows before the first position, which nothing reads: a leftover of the code that BART was trained with."""


def _read(config: CheckpointConfig) -> ModelSection:
    config.fixed("tie_word_embeddings", True, reason="tfcli reads BART with one matrix for embeddings and head")
    config.fixed("normalize_embedding", True, reason="tfcli reads BART with normalised embeddings")
    config.fixed("static_position_embeddings", False, reason="tfcli reads BART with learned positions")
    config.fixed("extra_pos_embeddings", _OFFSET, reason=f"BART's table of positions is read from row {_OFFSET} on")
    return bart_family.read(
        config,
        positions="learned",
        position_offset=_OFFSET,
        embedding_norm=True,
        tie_embeddings=True,
        share_embeddings=True,
    )


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    maps = [TensorMap("model.shared.weight", ("embedding.weight",))]
    for side, ours in (("encoder", "embedding"), ("decoder", "target_embedding")):
        maps += [
            TensorMap(f"model.{side}.embed_positions.weight", (f"{ours}.positions",)),
            *norm(f"model.{side}.layernorm_embedding", f"{ours}.norm", section.d_model),
        ]
    return maps + bart_family.tensors(section)


def _copies(_: ModelSection) -> Mapping[str, str]:
    copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    return dict.fromkeys(copies, "model.shared.weight")


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        "model_type": "bart",
        "architectures": ["BartForConditionalGeneration"],
        "tie_word_embeddings": True,
        "normalize_before": False,  # CTranslate2 asks for it
        **bart_family.write(section, roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "BART is an encoder-decoder", architecture="encoder-decoder")
    bart_family.check(section, "BART", own=("position_offset", "embedding_norm"))
    require(section, "BART learns its positions", positions="learned")
    require(section, f"BART reads its table of positions from row {_OFFSET} on", position_offset=_OFFSET)
    require(section, "BART normalises its embeddings", embedding_norm=True)
    require(section, "BART has one matrix for both sides and the head", share_embeddings=True, tie_embeddings=True)


LAYOUT = Layout(
    name="bart",
    model_types=("bart",),
    prefix="model.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    constants=bart_family.CONSTANTS,
    heads=bart_family.HEADS,
)
