"""A Hugging Face checkpoint folder: ``config.json`` and the tensors, in whichever of the usual files they are."""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from torch import Tensor

from tfcli.errors import BrokenInputError, UsageError
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.json_files import read_object
from tfcli.interop.shards import read_shards
from tfcli.interop.tensor_files import read_tensors

CONFIG_NAME = "config.json"
WEIGHTS_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""Where weights are looked for, the first that is there."""
_OTHER_FORMATS = {
    "adapter_model.*": "an adapter's weights alone",
    "*.h5": "TensorFlow weights",
    "*.ckpt*": "TensorFlow weights",
    "*.msgpack": "Flax weights",
    "*.gguf": "GGUF weights",
    "*.onnx": "ONNX weights",
    "*.ot": "Rust weights",
    "*.safetensors": "weights under a name of its own",
    "*.bin": "weights under a name of its own",
    "*.pt": "weights under a name of its own",
    "*.pth": "weights under a name of its own",
}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint folder holds.

    Attributes:
        folder: where it was read.
        config: its config.json, to be read setting by setting.
        values: the same as it is written.
        tensors: by the checkpoint's own names; floating-point ones as they are stored, finite.
        weights_file: the file of the tensors, or the index of several, to name in errors.
    """

    folder: Path
    config: CheckpointConfig
    values: dict[str, Any]
    tensors: dict[str, Tensor]
    weights_file: Path


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        UsageError: there is no such folder, or it holds no config.json, or no weights in a form that tfcli reads.
        BrokenInputError: a file is damaged, holds more than tensors, or names files outside the folder.
    """
    if not folder.is_dir():
        problem = f"{folder} is a file, not a folder" if folder.exists() else f"There is no folder {folder}"
        raise UsageError(problem, "name the folder of a checkpoint, or hf:owner/name")
    file = folder / CONFIG_NAME
    if not file.exists():
        raise UsageError(
            f"{folder} is no checkpoint, it has no {CONFIG_NAME}",
            "name a folder made by save_pretrained, or hf:owner/name",
        )
    values = read_object(file)
    weights = folder / weights_name([path.name for path in folder.iterdir()], str(folder))
    if not weights.is_file():
        raise UsageError(f"{weights} is no file that can be read", "restore the file, or fetch the checkpoint again")
    tensors = read_shards(weights) if weights.suffix == ".json" else read_tensors(weights)
    if not tensors:
        raise BrokenInputError(f"{weights} holds no tensors", "restore the file, or fetch the checkpoint again")
    return Checkpoint(folder, CheckpointConfig(values, file), values, tensors, weights)


def weights_name(names: Collection[str], where: str) -> str:
    """Which of a checkpoint's files to read the weights from.

    Args:
        names: of all its files.
        where: how to name the checkpoint in an error.

    Raises:
        UsageError: none; says what is there instead.
    """
    for name in WEIGHTS_NAMES:
        if name in names:
            return name
    for pattern, what in _OTHER_FORMATS.items():
        for name in sorted(names):
            if fnmatch(name, pattern):
                raise UsageError(
                    f"{where} holds {what} ({name!r}), and tfcli reads {WEIGHTS_NAMES[0]} or {WEIGHTS_NAMES[2]}",
                    "save the model with save_pretrained, or choose a checkpoint in safetensors",
                )
    raise UsageError(
        f"{where} holds no weights, neither {WEIGHTS_NAMES[0]} nor {WEIGHTS_NAMES[2]}",
        "complete the folder, or choose another checkpoint",
    )
