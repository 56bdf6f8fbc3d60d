"""torch.compile: layers are translated where it pays."""

import importlib.util
import os
import shutil
from typing import Literal

import torch

from tfcli.errors import UsageError
from tfcli.layers.kernels import allow_recompiles
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import Compile

_FEWEST_STEPS = 500
"""Steps below which translating takes longer than it saves."""


_MOST_FORMS = 32
"""Translations of a layer; an encoder-decoder has 14 over lengths, masks, training and evaluation."""


def choose_compile(wanted: Compile, device: torch.device, steps: int) -> Literal["on", "off"]:
    """On a CUDA GPU, for trainings of 500 steps and more. On CPUs it takes a minute and gains nothing over the paths
    that tfcli chooses there (docs/benchmarks.md).

    Raises:
        UsageError: it is asked for, and what it needs is not installed.
    """
    if wanted == "auto":
        return "on" if device.type == "cuda" and steps >= _FEWEST_STEPS and _translator(device) else "off"
    if wanted == "on" and not _translator(device):
        needed = "the package triton" if device.type == "cuda" else "a C++ compiler"
        raise UsageError(f"train.compile = 'on' needs {needed}, which is not here", "install it, or leave it at auto")
    return wanted


def compile_layers(model: Transformer) -> None:
    """Translate each layer's forward by itself: all are the same program, so that it is translated once. What is put
    around it later, as the checkpointing of activations, stays outside.

    Encoder and decoder layers, training and evaluation, lengths and masks that come and go are forms of the one
    program, and an encoder-decoder has more of them than PyTorch translates by default.
    """
    allow_recompiles(_MOST_FORMS)
    for layer in model.transformer_layers:
        layer.compile_sublayers()


def _translator(device: torch.device) -> bool:
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))
