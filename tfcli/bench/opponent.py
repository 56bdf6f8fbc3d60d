"""Comparison model: a recipe's model in `transformers`; the same one, else one of the same sizes."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

from tfcli.bench.generation_work import ROLES
from tfcli.interop.families import LAYOUTS
from tfcli.interop.layout import Inexpressible
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.records.bench import Difference

_FAMILIES = {"decoder": "gpt2", "encoder": "bert", "encoder-decoder": "bart"}
"""What people take where there is no more to choose by."""

_SIZES = ("vocab_size", "max_seq_len", "d_model", "num_layers", "num_decoder_layers", "num_heads")
_DROPOUTS = ("dropout", "embedding_dropout", "attention_dropout", "activation_dropout")
_WITHOUT_COST = (
    *("initialization", "init_std", "norm_eps", "position_offset", "position_layout", "scale_embeddings"),
    *("tie_embeddings", "share_embeddings"),
)
"""Settings that change what is computed, and hardly how long it takes; the numbers of parameters are shown."""

_FOLLOWS = {"norm_bias": "norm", "attention_output_bias": "attention_bias"}
"""Settings that need no mention where another one differs already."""


class Opponent(NamedTuple):
    """A family's config.json, the section it says, and how that differs from the recipe's."""

    config: dict[str, Any]
    section: ModelSection
    differences: tuple[Difference, ...]

    @property
    def model(self) -> str:
        """The name of its class."""
        return str(self.config["architectures"][0])


def opponent_of(section: ModelSection) -> Opponent:
    """The same model in the first family that has it; else GPT-2, BERT or BART of the same sizes.

    Raises:
        UsageError: the sizes do not fit together in that family.
    """
    config = _written(section)
    if config is not None:
        return Opponent(config, section, ())
    family = build_recipe(preset(_FAMILIES[section.architecture]), {"model": {"d_ff": None}}).model
    alike = replace(family, **{name: getattr(section, name) for name in (*_SIZES, *_DROPOUTS)})
    if not section.is_gated:
        alike = replace(alike, d_ff=section.d_ff)
    config = _written(alike)
    assert config is not None, "a preset is a family's own shape"
    return Opponent(config, alike, tuple(_differences(section, alike)))


def _written(section: ModelSection) -> dict[str, Any] | None:
    for layout in LAYOUTS:
        try:
            return layout.write(section, ROLES)
        except Inexpressible:
            continue
    return None


def _differences(ours: ModelSection, theirs: ModelSection) -> Iterator[Difference]:
    """Settings, by what they come to: a default is worth what it stands for."""
    for name in (field.name for field in fields(ModelSection)):
        leader = _FOLLOWS.get(name)
        if name in _WITHOUT_COST or (leader and getattr(ours, leader) != getattr(theirs, leader)):
            continue
        here, there = _value(ours, name), _value(theirs, name)
        if here != there:
            yield Difference(name, str(here), str(there))


_STANDS_FOR = {
    "num_decoder_layers": "decoder_layers",
    "num_kv_heads": "kv_heads",
    "head_dim": "size_per_head",
    "d_ff": "inner_size",
    "norm_bias": "has_norm_bias",
    "attention_output_bias": "has_output_bias",
    "embedding_dropout": "embedding_dropout_rate",
    "attention_dropout": "attention_dropout_rate",
}


def _value(section: ModelSection, name: str) -> object:
    return getattr(section, _STANDS_FOR.get(name, name))
