"""Marian (Junczys-Dowmunt et al. 2018), as the OPUS-MT models have it: sinusoidal positions, all sines before all
cosines, and embeddings that the two sides may share or not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bart_family
from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_WITHOUT_EFFECT = ("extra_pos_embeddings",)
"""The number of a token in old files; the table of positions, which is computed, begins at 0 all the same."""

_SHARED = "model.shared.weight"
_OURS = (("encoder", "embedding"), ("decoder", "target_embedding"))
_TABLES = {f"model.{side}.embed_positions.weight": f"{ours}.positions" for side, ours in _OURS}
"""The tables of positions, which most files repeat from the formula."""
_ROUNDING = 2.0**-8
"""How far a table in sixteen bits may lie from the formula."""

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


def _settle(section: ModelSection, tensors: Mapping[str, Tensor]) -> ModelSection:
    """Tables that are not the sinusoids are taken from the file, as learned ones."""
    formula = sinusoidal_encoding(section.max_seq_len, section.d_model, layout="halves")
    tables = [tensors[name] for name in _TABLES if name in tensors]
    if all(table.shape == formula.shape and (table - formula).abs().max() <= _ROUNDING for table in tables):
        return section
    return replace(section, positions="learned", position_layout=None)


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    if section.share_embeddings:
        maps = [TensorMap(_SHARED, ("embedding.weight",))]
    else:
        maps = [TensorMap(_SOURCE, ("embedding.weight",)), TensorMap(_TARGET, ("target_embedding.weight",))]
    if not section.tie_embeddings:
        maps.append(TensorMap("lm_head.weight", ("head.weight",)))
    if section.positions == "learned":
        maps += [TensorMap(theirs, (ours,)) for theirs, ours in _TABLES.items()]
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
    require(section, "Marian has a table of positions", positions=("sinusoidal", "learned"))
    if section.positions == "sinusoidal":
        require(section, "Marian numbers positions one by one", position_scaling=1.0)
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
    settle=_settle,
    copies=_copies,
    constants=(*bart_family.CONSTANTS, *map(re.escape, _TABLES)),
    heads=bart_family.HEADS,
)
