"""Settings of config.json: which field of the model section each is, read and written by one description."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

Fields = Mapping[str, Any]
"""Fields of a model section, or settings of a config.json, by name."""

_BY_TANH = ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh")
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(_BY_TANH, "gelu_tanh"),
    "silu": "silu",
    "swish": "silu",
}
"""What checkpoints call the activations of an ungated feed-forward; several of their names are one function."""
WRITTEN: dict[Activation, str] = {ours: ours for ours in ACTIVATIONS.values()} | {"gelu_tanh": "gelu_new"}
"""The name that an exported checkpoint gives each."""


class UnsupportedVariantError(Exception):
    """A family does not have the variant of a run: the setting that stands in the way, and its value."""

    def __init__(self, setting: str, value: object) -> None:
        super().__init__(f"model.{setting} = {value!r}")
        self.setting = setting


_SETTLED = {
    "d_ff": "inner_size",
    "num_kv_heads": "kv_heads",
    "head_dim": "size_per_head",
    "num_decoder_layers": "decoder_layers",
    "attention_dropout": "attention_dropout_rate",
    "embedding_dropout": "embedding_dropout_rate",
}
"""Fields that may be left open in a recipe, and the property that settles them."""


@dataclass(frozen=True)
class Setting:
    """Settings of config.json that belong together: what they say of the model section, and how export writes them."""

    read: Callable[[CheckpointConfig], Fields] = lambda _: {}
    write: Callable[[ModelSection, TokenRoles], Fields] = lambda section, roles: {}

    @staticmethod
    def of(names: Sequence[str], of: Sequence[str], read: Callable[[CheckpointConfig], Any]) -> "Setting":
        """Settings with one value, which several fields may have."""
        field = _SETTLED.get(of[0], of[0])
        return Setting(
            lambda config: dict.fromkeys(of, read(config)),
            lambda section, _: dict.fromkeys(names, getattr(section, field)),
        )

    @staticmethod
    def integers(default: int | Callable[[CheckpointConfig], int] | None = None, **of: str) -> "tuple[Setting, ...]":
        """Sizes, each with its field. `default`: what a file means that does not say it; None: it must."""

        def reader(name: str) -> Callable[[CheckpointConfig], int]:
            return lambda config: config.integer(name, default(config) if callable(default) else default)

        return tuple(Setting.of([name], [field], reader(name)) for name, field in of.items())

    @staticmethod
    def number(name: str, *of: str, default: float | None = None) -> "Setting":
        """A number of 0 or more."""
        return Setting.of([name], of, lambda config: config.number(name, default))

    @staticmethod
    def flag(name: str, *of: str, default: bool) -> "Setting":
        """True or false."""
        return Setting.of([name], of, lambda config: config.flag(name, default))

    @staticmethod
    def activation(
        name: str,
        default: str,
        known: Mapping[str, Activation] = ACTIVATIONS,
        written: Mapping[Activation, str] = WRITTEN,
    ) -> "Setting":
        """The activation of the feed-forward, by their names and by the one that is written."""
        return Setting(
            lambda config: {"activation": config.choice(name, known, default)},
            lambda section, _: {name: written[section.activation]},
        )

    @staticmethod
    def fixed(name: str, *allowed: object, reason: str, written: bool = False) -> "Setting":
        """A setting that has one value (or several that mean the same) in all models that tfcli has; says why."""

        def read(config: CheckpointConfig) -> Fields:
            config.fixed(name, *allowed, reason=reason)
            return {}

        return Setting(read, lambda section, roles: {name: allowed[0]} if written else {})

    @staticmethod
    def aliases(default: int | None = None, reason: str = "", **of: str) -> "tuple[Setting, ...]":
        """Second names of sizes. The library would let the second name win, so both must say the same."""

        def reader(name: str, first: str) -> Callable[[CheckpointConfig], Fields]:
            def read(config: CheckpointConfig) -> Fields:
                value = config.integer(first, default)
                config.fixed(name, value, reason=reason or f"{first}, another name of the same, is {value}")
                return {}

            return read

        return tuple(Setting(reader(name, first)) for name, first in of.items())

    @staticmethod
    def constants(**values: object) -> "Setting":
        """Settings that are written as they are, and say nothing of the model."""
        return Setting(write=lambda section, roles: values)

    @staticmethod
    def family(model_type: str, model_class: str, headless_class: str = "") -> "Setting":
        """The family, and the class of `transformers` that loads the model, with its head or without."""
        return Setting(
            write=lambda section, _: {
                "model_type": model_type,
                "architectures": [headless_class if section.head == "none" else model_class],
            }
        )


def written_tokens(roles: TokenRoles) -> dict[str, Any]:
    """The settings of special tokens that every family has."""
    ends = [roles.eos, *roles.more_ends]
    return {"bos_token_id": roles.bos, "eos_token_id": ends if ends[1:] else roles.eos, "pad_token_id": roles.pad}


def _target_tokens(_: ModelSection, roles: TokenRoles) -> Fields:
    """With those that a target begins with, for which config.json has two settings."""
    names = ("decoder_start_token_id", "forced_bos_token_id")
    if len(roles.target_prefix) > len(names):
        raise UnsupportedVariantError("target_start", roles.target_prefix)
    return {**written_tokens(roles), **dict(zip(names, roles.target_prefix, strict=False))}


TOKENS = Setting(write=lambda _, roles: written_tokens(roles))
TARGET_TOKENS = Setting(write=_target_tokens)
_BOTH = "tfcli reads both sides of this family"
BOTH_SIDES = (
    Setting.fixed("is_encoder_decoder", True, reason=_BOTH, written=True),
    Setting.fixed("is_decoder", False, reason=_BOTH),
)
"""Half an encoder-decoder is refused."""
