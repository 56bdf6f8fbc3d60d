"""Named starting points: a preset is a published shape, a size scales tfcli's own (`presets.toml`). Torch-free.
Precedence: option or --set, recipe, size, preset, default. None takes back what a lower layer said."""

from collections.abc import Mapping
from typing import Any

from tfcli.errors import UsageError, shortened
from tfcli.files import packaged

Settings = dict[str, dict[str, Any]]
_STORED: dict[str, dict[str, Any]] = packaged(__file__, "presets.toml")
PRESETS: dict[str, Settings] = _STORED["presets"]
# What trains otherwise than in the preset's paper, or is not in it: the setting, the paper's value, its section.
APART: dict[str, tuple[str, ...]] = {name: tuple(lines) for name, lines in _STORED["apart"].items()}
PUBLISHED: dict[str, dict[str, Any]] = _STORED["published"]  # `vocab_size`, and what the authors count as `parameters`

_UNSAID = {  # what a preset says about its own size and the length of its training goes with the size
    "model": dict.fromkeys(("head_dim", "num_kv_heads", "d_ff", "num_decoder_layers")),
    "train": dict.fromkeys(("steps", "warmup_steps", "grad_accumulation")),
}

SIZES: dict[str, Settings] = {
    name: {section: {**_UNSAID[section], **values} for section, values in settings.items()}
    for name, settings in _STORED["sizes"].items()
}


def preset(name: str, known: dict[str, Settings] = PRESETS, what: str = "preset") -> Settings:
    """The settings of a preset, or of what else is `known`; an unknown name is refused."""
    if name not in known:
        raise UsageError(f"There is no {what} {shortened(name)!r}", f"choose {', '.join(known)}")
    return known[name]


def size(name: str) -> Settings:
    """The settings of a size; an unknown name is refused."""
    return preset(name, SIZES, "size")


def usual_preset(*layers: Mapping[str, Any]) -> Settings:
    """What a new model has where neither a preset nor a run says so; later layers of settings win."""
    models = [layer["model"] for layer in layers if isinstance(layer.get("model"), dict)]
    architectures = [model["architecture"] for model in models if "architecture" in model]
    return PRESETS["portable"] if architectures[-1:] == ["encoder-decoder"] else {}
