"""Named starting points: a preset is a published shape, a size scales tfcli's own. Torch-free.

Precedence: flag, --set, recipe, size, preset, default.
"""

from typing import Any

from tfcli.errors import UsageError

Settings = dict[str, dict[str, Any]]

PRESETS: dict[str, Settings] = {
    # Vaswani et al. 2017, table 3, row "base"
    "vaswani2017": {
        "model": {
            "architecture": "encoder-decoder",
            "d_model": 512,
            "num_layers": 6,
            "num_heads": 8,
            "d_ff": 2048,
            "max_seq_len": 512,
            "positions": "sinusoidal",
            "norm": "layernorm",
            "norm_placement": "post",
            "activation": "relu",
            "feed_forward_bias": True,
            "dropout": 0.1,
            "attention_init": "normal",
        },
        "train": {
            "steps": 100_000,
            "schedule": "inverse_sqrt",
            "warmup_steps": 4000,
            "learning_rate": 7e-4,
            "beta2": 0.98,
            "adam_eps": 1e-9,
            "weight_decay": 0.0,
            "clip_norm": 0.0,
        },
    },
    # Radford et al. 2019, the 124M model
    "gpt2": {
        "model": {
            "architecture": "decoder",
            "d_model": 768,
            "num_layers": 12,
            "num_heads": 12,
            "d_ff": 3072,
            "max_seq_len": 1024,
            "positions": "learned",
            "norm": "layernorm",
            "activation": "gelu",
            "attention_bias": True,
            "feed_forward_bias": True,
            "dropout": 0.1,
            "attention_init": "normal",
        },
        "train": {"steps": 100_000, "learning_rate": 6e-4, "beta2": 0.95, "warmup_steps": 700},
    },
    # Touvron et al. 2023: the layout, at a size for one machine
    "llama": {
        "model": {
            "architecture": "decoder",
            "d_model": 512,
            "num_layers": 8,
            "num_heads": 8,
            "max_seq_len": 512,
            "positions": "rotary",
            "norm": "rmsnorm",
            "activation": "swiglu",
            "tie_embeddings": False,
            "attention_init": "normal",
        },
        "train": {"steps": 20_000, "learning_rate": 1e-3, "beta2": 0.95},
    },
}

SIZES: dict[str, Settings] = {
    "tiny": {"model": {"d_model": 64, "num_layers": 2, "num_heads": 2}, "train": {"learning_rate": 5e-3}},
    "mini": {"model": {"d_model": 128, "num_layers": 4, "num_heads": 4}, "train": {"learning_rate": 3e-3}},
    "small": {
        "model": {"d_model": 384, "num_layers": 6, "num_heads": 6, "max_seq_len": 256},
        "train": {"learning_rate": 1e-3},
    },
    "base": {
        "model": {"d_model": 768, "num_layers": 12, "num_heads": 12, "max_seq_len": 1024},
        "train": {"learning_rate": 6e-4, "warmup_steps": 500},
    },
}


def preset(name: str) -> Settings:
    """The settings of a preset.

    Raises:
        UsageError: there is none of that name.
    """
    return _choose(PRESETS, "preset", name)


def size(name: str) -> Settings:
    """The settings of a size.

    Raises:
        UsageError: there is none of that name.
    """
    return _choose(SIZES, "size", name)


def _choose(known: dict[str, Settings], what: str, name: str) -> Settings:
    if name not in known:
        raise UsageError(f"There is no {what} {name!r}", f"choose {', '.join(known)}")
    return known[name]
