"""Named starting points: a preset is a published shape, a size scales tfcli's own. Torch-free.

Precedence: option or --set, recipe, size, preset, default. None takes back what a lower layer said.
"""

from collections.abc import Mapping
from typing import Any

from tfcli.errors import UsageError, shortened

Settings = dict[str, dict[str, Any]]

# What the papers' layers share, as far as it is not tfcli's default.
_LAYERNORM_AND_BIASES = {"norm": "layernorm", "attention_bias": True, "feed_forward_bias": True}

_RELU_AND_LAYERNORM = {"norm": "layernorm", "activation": "relu", "feed_forward_bias": True}

_LONG = {"steps": 100_000}
_ADAM = {"weight_decay": 0.0}  # without decay, before Loshchilov and Hutter 2019
_INVERSE_SQRT = {"schedule": "inverse_sqrt", "beta2": 0.98, "adam_eps": 1e-9}


def _shape(d_model: int, num_layers: int, num_heads: int, d_ff: int, max_seq_len: int) -> dict[str, int]:
    sizes = {"d_model": d_model, "num_layers": num_layers, "num_heads": num_heads}
    return {**sizes, "d_ff": d_ff, "max_seq_len": max_seq_len}


PRESETS: dict[str, Settings] = {
    # What trains best at small scale, by the measurements in docs/benchmarks.md: tfcli's defaults, but for
    # encoder-decoders.
    "modern": {},
    # Vaswani et al. 2017, table 3, row "base"
    "vaswani2017": {
        "model": {
            "architecture": "encoder-decoder",
            **_shape(512, 6, 8, 2048, 512),
            "positions": "sinusoidal",
            **_RELU_AND_LAYERNORM,
            "norm_placement": "post",
            "dropout": 0.1,
            "attention_dropout": 0.0,
            "initialization": "vaswani2017",
        },
        "train": {
            **_LONG,
            **_ADAM,
            **_INVERSE_SQRT,
            "warmup_steps": 4000,
            "learning_rate": 7e-4,
            "clip_norm": 0.0,
        },
    },
    # Prince 2023, chapter 12, as the lecture notes have it: affine queries, keys and values, a linear Ω_c, norms after
    # the residuals
    "udl": {
        "model": {
            "architecture": "decoder",
            "positions": "learned",
            **_RELU_AND_LAYERNORM,
            "norm_placement": "post",
            "attention_bias": True,
            "attention_output_bias": False,
            "initialization": "gpt2",
        },
        "train": {"learning_rate": 1e-3},
    },
    # Bishop and Bishop 2024, chapter 12, in its pre-norm form: linear maps without biases, sinusoids added
    "bishop-pre": {
        "model": {
            "architecture": "decoder",
            "positions": "sinusoidal",
            **_RELU_AND_LAYERNORM,
            "norm_placement": "pre",
            "initialization": "gpt2",
        },
    },
    # CS224n's notes, section 3: pre-norm, layer norm without gain and bias
    "cs224n": {
        "model": {
            "architecture": "decoder",
            "positions": "learned",
            **_RELU_AND_LAYERNORM,
            "norm_affine": False,
            "norm_placement": "pre",
            "initialization": "gpt2",
        },
    },
    # Radford et al. 2019, the 124M model; trained as Brown et al. 2020 (appendix B) trained one of its shape
    "gpt2": {
        "model": {
            **_LAYERNORM_AND_BIASES,
            "architecture": "decoder",
            **_shape(768, 12, 12, 3072, 1024),
            "positions": "learned",
            "activation": "gelu_tanh",
            "dropout": 0.1,
            "initialization": "gpt2",
        },
        "train": {**_LONG, "learning_rate": 6e-4, "beta2": 0.95, "warmup_steps": 700, "grad_accumulation": 16},
    },
    # Devlin et al. 2019, BERT-base
    "bert": {
        "model": {
            **_LAYERNORM_AND_BIASES,
            "architecture": "encoder",
            **_shape(768, 12, 12, 3072, 512),
            "positions": "learned",
            "token_types": 2,
            "embedding_norm": True,
            "norm_placement": "post",
            "norm_eps": 1e-12,
            "activation": "gelu",
            "head": "transform",
            "head_bias": True,
            "dropout": 0.1,
            "initialization": "bert",
        },
        "train": {
            "steps": 1_000_000,
            "grad_accumulation": 8,
            "learning_rate": 1e-4,
            "warmup_steps": 10_000,
            "schedule": "linear",
            "final_learning_rate": 0.0,
            "beta2": 0.999,
            "adam_eps": 1e-6,
            "weight_decay": 0.01,
        },
    },
    # Touvron et al. 2023, the 7B model
    "llama": {
        "model": {
            "architecture": "decoder",
            **_shape(4096, 32, 32, 11_008, 2048),
            "positions": "rotary",
            "norm": "rmsnorm",
            "norm_eps": 1e-6,
            "activation": "swiglu",
            "tie_embeddings": False,
            "initialization": "bert",
        },
        "train": {
            "steps": 250_000,
            "grad_accumulation": 64,
            "learning_rate": 3e-4,
            "beta2": 0.95,
            "warmup_steps": 2000,
        },
    },
    # Lewis et al. 2020, BART-base
    "bart": {
        "model": {
            **_LAYERNORM_AND_BIASES,
            "architecture": "encoder-decoder",
            **_shape(768, 6, 12, 3072, 1024),
            "positions": "learned",
            "position_offset": 2,
            "embedding_norm": True,
            "norm_placement": "post",
            "activation": "gelu",
            "dropout": 0.1,
            "initialization": "bert",
        },
        "train": {"steps": 1_000_000, "learning_rate": 3e-4, "warmup_steps": 10_000},
    },
    # Junczys-Dowmunt et al. 2018, in the shape of the OPUS-MT models (Tiedemann and Thottingal 2020)
    "marian": {
        "model": {
            **_LAYERNORM_AND_BIASES,
            "architecture": "encoder-decoder",
            **_shape(512, 6, 8, 2048, 512),
            "positions": "sinusoidal",
            "position_layout": "halves",
            "norm_placement": "post",
            "activation": "silu",
            "head_bias": True,
            "dropout": 0.1,
            "attention_dropout": 0.0,
            "initialization": "vaswani2017",
        },
        "train": {
            **_LONG,
            **_ADAM,
            **_INVERSE_SQRT,
            "warmup_steps": 16_000,
            "learning_rate": 3e-4,
            "clip_norm": 5.0,
        },
    },
    # What an encoder-decoder is where no preset is named: `modern` as far as T5 1.1 (Shazeer 2020; Raffel et al. 2020)
    # has it, so that other programs read it; compared in docs/benchmarks.md
    "portable": {"model": {"architecture": "encoder-decoder", "positions": "t5", "activation": "geglu_tanh"}},
    # Raffel et al. 2020, T5-small
    "t5": {
        "model": {
            "architecture": "encoder-decoder",
            **_shape(512, 6, 8, 2048, 512),
            "head_dim": 64,
            "positions": "t5",
            "norm": "rmsnorm",
            "norm_eps": 1e-6,
            "attention_score": "dot",
            "activation": "relu",
            "scale_logits": True,
            "dropout": 0.1,
            "activation_dropout": 0.1,
            "initialization": "t5",
        },
        "train": {
            **_ADAM,
            "steps": 524_288,
            "grad_accumulation": 4,
            "schedule": "inverse_sqrt",
            "warmup_steps": 10_000,
            "learning_rate": 1e-3,
            "label_smoothing": 0.0,
        },
    },
}

_OWN = "the paper does not say"
APART: dict[str, tuple[str, ...]] = {
    "vaswani2017": (
        "a batch of about 25,000 tokens a side (5.1): set train.batch_tokens",
        "the mean of the last 5 checkpoints (6.1): set train.average_checkpoints=5",
    ),
    "gpt2": (
        f"train.steps, learning_rate, schedule, warmup_steps, beta2, weight_decay, clip_norm: {_OWN}; all but the steps"
        " are Brown et al. 2020's (appendix B) for this shape",
        f"model.dropout: {_OWN}; 0.1 is that of Radford et al. 2018 (4.1)",
    ),
    "bert": (
        "the next sentence is not predicted (3.1): there are masks alone",
        "sequences of 128 tokens in nine steps of ten (A.2): here all have train.context",
        f"train.adam_eps, clip_norm: {_OWN}; they are those of the authors' code",
    ),
    "llama": (f"model.norm_eps: {_OWN}; it is that of the authors' code",),
    "bart": (
        "texts that were made noisy are not reconstructed (2.2): there are pairs, as in 5.3",
        f"the batch, train.learning_rate, warmup_steps, schedule, beta2, weight_decay, model.dropout: {_OWN} for base",
    ),
    "marian": (
        "the papers give no values; they are those of Marian's --task transformer-base, where there are any",
        "a moving average of the weights (1e-4 a step): set train.ema_decay=0.9999",
        f"train.steps: {_OWN}; Marian stops when scores do",
    ),
    "t5": (
        "train.optimizer: AdaFactor at 0.01 (3.1.2), which clips updates: here AdamW at 0.001, and train.clip_norm",
        "the rate is constant in the first 10,000 steps (3.1.2): here it rises",
        "spans of a text are not filled in (3.1.4): there are pairs",
    ),
}
"""What trains otherwise than in the preset's paper, or is not in it: the setting, the paper's value, its section. All
else that a preset says is the paper's."""

# What a preset says about its own size and the length of its training goes with the size.
_UNSAID = {
    "model": {"head_dim": None, "num_kv_heads": None, "d_ff": None, "num_decoder_layers": None},
    "train": {"steps": None, "warmup_steps": None, "grad_accumulation": None},
}
_SIZES: dict[str, Settings] = {
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
SIZES: dict[str, Settings] = {
    name: {section: {**_UNSAID[section], **values} for section, values in settings.items()}
    for name, settings in _SIZES.items()
}


def preset(name: str) -> Settings:
    """The settings of a preset.

    Raises:
        UsageError: there is none of that name.
    """
    return _choose(PRESETS, "preset", name)


def usual_preset(*layers: Mapping[str, Any]) -> Settings:
    """What a new model has where neither a preset nor a run says so.

    Args:
        layers: of settings, later ones winning.
    """
    models = [layer["model"] for layer in layers if isinstance(layer.get("model"), dict)]
    architectures = [model["architecture"] for model in models if "architecture" in model]
    return PRESETS["portable"] if architectures[-1:] == ["encoder-decoder"] else {}


def size(name: str) -> Settings:
    """The settings of a size.

    Raises:
        UsageError: there is none of that name.
    """
    return _choose(SIZES, "size", name)


def _choose(known: dict[str, Settings], what: str, name: str) -> Settings:
    if name not in known:
        raise UsageError(f"There is no {what} {shortened(name)!r}", f"choose {', '.join(known)}")
    return known[name]
