"""Mixed precision: bfloat16 autocast over float32 weights, where the recipe says "auto" and it is faster."""

import importlib.util
import os
import shutil
from typing import Literal

import torch

from tfcli.errors import UsageError
from tfcli.layers.kernels import allow_recompiles
from tfcli.machine import cpu_flags
from tfcli.models.build import build_model
from tfcli.models.device import measure_layers
from tfcli.models.transformer import EncoderDecoder, Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.train import AttentionPath, Compile
from tfcli.threads import ThreadChooser

_BFLOAT16_UNITS = {"amx_bf16", "avx512_bf16"}
_SMALLEST_BFLOAT16_D_MODEL = 128

_LONGEST_ROWS = 512  # tokens up to which a sequence at a time pays: memory of its weights grows with the square
_FEWEST_STEPS = 500  # steps below which compiling takes longer than it saves
_MEASURED_TOKENS = 4096  # of a micro-batch, by which the number of threads is chosen
_MEASURED_PASSES = 8
_MOST_FORMS = 32  # compiled forms of a layer that are kept; an encoder-decoder has 14, by lengths, masks and mode


def choose_precision(wanted: str, device: torch.device, model: ModelSection) -> Literal["float32", "bfloat16"]:
    """bfloat16 autocast where it is faster: on CUDA GPUs that have it, and on CPUs with bfloat16 matrix units for
    models of d_model ≥ 128. Smaller models spend longer casting than they save (docs/benchmarks.md)."""
    if wanted != "auto":
        return "bfloat16" if wanted == "bfloat16" else "float32"
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu" and model.d_model >= _SMALLEST_BFLOAT16_D_MODEL and cpu_flags() & _BFLOAT16_UNITS:
        return "bfloat16"
    return "float32"


def choose_attention(
    wanted: AttentionPath, device: torch.device, precision: str, context: int
) -> Literal["fused", "rows"]:
    """A sequence at a time on a CPU in bfloat16, where PyTorch's kernel takes 1.5 to 2.4 times as long up to 512
    tokens (docs/benchmarks.md); in float32 the two are equal, and on a GPU the kernel has no equal."""
    if wanted != "auto":
        return wanted
    return "rows" if device.type == "cpu" and precision == "bfloat16" and context <= _LONGEST_ROWS else "fused"


def choose_compile(wanted: Compile, device: torch.device, steps: int) -> Literal["on", "off"]:
    """On a CUDA GPU, for trainings of 500 steps and more. On CPUs it takes a minute and gains nothing over the paths
    that tfcli chooses there (docs/benchmarks.md). Asked for without what it needs, it is refused."""
    if wanted == "auto":
        return "on" if device.type == "cuda" and steps >= _FEWEST_STEPS and _has_compiler(device) else "off"
    if wanted == "on" and not _has_compiler(device):
        needed = "the package triton" if device.type == "cuda" else "a C++ compiler"
        raise UsageError(f"train.compile = 'on' needs {needed}, which is not here", "install it, or leave it at auto")
    return wanted


def measure_threads(recipe: Recipe, most: int, sequences: int) -> int:
    """Return the number of CPU threads, 1 or `most`, with which the layers of a recipe's model are faster.

    The model has random weights and reads random tokens, a few passes at most.

    Args:
        recipe: A recipe whose vocabulary and precision are decided.
        most: The number of threads to compare with one.
        sequences: The number of sequences in a micro-batch.
    """
    if most == 1:
        return 1
    vector = torch.ones(1 << 17)
    chooser = ThreadChooser(most, torch.set_num_threads, lambda: vector.add_(1))
    model = build_model(recipe.model, recipe.train.seed).eval()
    measure_layers(model, chooser)
    rows = max(1, min(sequences, _MEASURED_TOKENS // recipe.context))
    ids = torch.zeros(rows, recipe.context, dtype=torch.long)
    inputs = [ids, ids] if isinstance(model, EncoderDecoder) else [ids]
    is_mixed = recipe.train.precision == "bfloat16"
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
        for _ in range(_MEASURED_PASSES):
            model.hidden(*inputs)
            if chooser.is_decided:
                break
    return chooser.threads if chooser.is_decided else most


def compile_layers(model: Transformer) -> None:
    """Compile each layer's forward by itself: all are the same program, in forms for lengths and masks, of which an
    encoder-decoder has more than PyTorch compiles by default. What is put around it later stays outside."""
    allow_recompiles(_MOST_FORMS)
    for layer in model.transformer_layers:
        layer.compile_sublayers()


def _has_compiler(device: torch.device) -> bool:
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))
