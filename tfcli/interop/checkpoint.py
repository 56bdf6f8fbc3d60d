"""A checkpoint folder in the layout of Hugging Face: config.json and the weights."""

import fnmatch
import pickle
import shlex
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import float_info
from typing import Any, TypeVar

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import read_object
from tfcli.recipe.model import LARGEST_SIZE
from tfcli.runs.weights import is_finite, load_tensors

Value = TypeVar("Value")

LARGEST_FILE = 1 << 26  # bytes of a JSON or text file; the index of a hundred thousand tensors has a tenth of it

_OF_THE_FILE = """
    _name_or_path architectures auto_map chunk_size_feed_forward classifier_dropout dtype finetuning_task id2label
    is_encoder_decoder label2id model_type num_labels problem_type task_specific_params tokenizer_class torch_dtype
    transformers_version use_cache gradient_checkpointing return_dict output_attentions output_hidden_states
    torchscript attn_implementation prefix transformers.js_config unsloth_fixed unsloth_version initializer_range
    vocab_size
"""  # of the file, and of other tasks than language modelling
_OF_GENERATION = """
    bos_token_id eos_token_id eos_token_ids pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id bad_words_ids max_length min_length num_beams
    do_sample temperature top_k top_p length_penalty early_stopping no_repeat_ngram_size repetition_penalty
    suppress_tokens begin_suppress_tokens diversity_penalty encoder_no_repeat_ngram_size num_beam_groups
    num_return_sequences output_scores remove_invalid_values return_dict_in_generate typical_p
    exponential_decay_length_penalty is_decoder cross_attention_hidden_size use_bfloat16 tf_legacy_loss
"""  # special tokens and defaults of generation, which are read with the tokenizer
WITHOUT_EFFECT = frozenset((_OF_THE_FILE + _OF_GENERATION).split())  # change no model; nor do those that begin with _


def read_optional(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint; empty where there is no such file."""
    return read_object(path, LARGEST_FILE) if path.exists() else {}


class CheckpointConfig:
    """The settings of a checkpoint, or of the object `inside` one. Each is asked for by name; `finish` refuses those
    that nobody asked for. A UsageError names a setting that is missing or something else than asked for."""

    def __init__(self, values: Mapping[str, Any], file: Path, inside: str = "") -> None:
        self.file, self._inside, self._values = file, inside, values
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the setting is there and not null."""
        return self._values.get(name) is not None

    def says(self, name: str) -> bool:
        """Whether the setting is there, null or not: a family may take absence for its own default."""
        return name in self._values

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number of 1 or more, and no larger than any model's."""
        needed = f"a whole number from 1 to {LARGEST_SIZE:,}"
        return self._value(name, default, needed, lambda n: type(n) is int and 1 <= n <= LARGEST_SIZE)

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number of 0 or more."""
        needed = "a number of 0 or more"
        return float(self._value(name, default, needed, lambda n: type(n) in (int, float) and 0 <= n <= float_info.max))

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        return self._value(name, default, "true or false", lambda value: isinstance(value, bool))

    def choice(self, name: str, known: Mapping[str, Value], default: str | None = None) -> Value:
        """What one of several names stands for; the UsageError lists them."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in known:
            raise self._lacking(name, value, f"tfcli knows {', '.join(known)}")
        return known[value]

    def fixed(self, name: str, *allowed: object, reason: str) -> None:
        """Require a setting to be absent, null or one of the values that tfcli's model stands for."""
        self._read.add(name)
        if self.has(name) and self._values[name] not in allowed:
            raise self._lacking(name, self._values[name], reason)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A nested object, empty where there is none."""
        return self._value(name, {}, "an object", lambda value: isinstance(value, dict))

    def finish(self, without_effect: Collection[str] = ()) -> None:
        """Refuse settings that were not asked for and are not known to change nothing; names the first."""
        self.fixed("pruned_heads", {}, reason="tfcli's layers all have the same heads")
        understood = self._read | WITHOUT_EFFECT | set(without_effect)
        for name, value in self._values.items():
            if value is not None and name not in understood and not name.startswith("_"):
                raise self._lacking(name, value, "tfcli does not know this setting of the family")

    def _value(self, name: str, default: Any, needed: str = "", is_right: Callable[[Any], bool] = bool) -> Any:
        self._read.add(name)
        value = self._values.get(name)
        value = default if value is None else value
        if value is None:
            problem = f"{self.file} does not say {name!r}"
            raise UsageError(problem, "complete the file: the model cannot be built without")
        if needed and not is_right(value):
            problem = self._problem(name, value, f"{needed} is needed")
            raise UsageError(problem, "correct the file, or choose another checkpoint")
        return value

    def _lacking(self, name: str, value: object, why: str) -> UsageError:
        """The file may be right, and it is tfcli that lacks the setting."""
        key = f"{self._inside}.{name}" if self._inside else name
        remedy = f"where the model is the same without it, read it so: --ignore-setting {shlex.quote(key)}"
        return UsageError(self._problem(name, value, why), remedy)

    def _problem(self, name: str, value: object, why: str) -> str:
        return f"{self.file} has {shortened(name)} = {shortened(repr(value))}, and {why}"


CONFIG_NAME = "config.json"
WEIGHTS_NAMES = tuple(name + of for name in ("model.safetensors", "pytorch_model.bin") for of in ("", ".index.json"))
"""Where weights are looked for, the first that is there."""
_OTHER_FORMATS = {
    "adapter_model.*": "an adapter's weights alone",
    **dict.fromkeys(("*.h5", "*.ckpt*"), "TensorFlow weights"),
    "*.msgpack": "Flax weights",
    "*.gguf": "GGUF weights",
    "*.onnx": "ONNX weights",
    "*.ot": "Rust weights",
    **dict.fromkeys(("*.safetensors", "*.bin", "*.pt", "*.pth"), "weights under a name of its own"),
}
_LONGEST_NAME = 255  # bytes that a file's name may have
_READ = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_KEPT = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_RESTORE = "restore the file, or fetch the checkpoint again"
_FETCH = "fetch the checkpoint again, or choose another one"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint folder holds."""

    folder: Path
    config: CheckpointConfig  # config.json, to be read setting by setting
    values: dict[str, Any]  # the same as it is written
    tensors: dict[str, Tensor]  # by the checkpoint's own names; floating-point ones as they are stored, finite
    weights_file: Path  # or the index of several, to name in errors


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint folder. A UsageError where there is none, or it holds no config.json or no weights in a form
    that tfcli reads; a BrokenInputError where a file is damaged, holds more than tensors, or names files outside."""
    if not folder.is_dir():
        problem = f"{folder} is a file, not a folder" if folder.exists() else f"There is no folder {folder}"
        raise UsageError(problem, "name the folder of a checkpoint, or hf:owner/name")
    file = folder / CONFIG_NAME
    if not file.exists():
        problem = f"{folder} is no checkpoint, it has no {CONFIG_NAME}"
        raise UsageError(problem, "name a folder made by save_pretrained, or hf:owner/name")
    values = read_object(file, LARGEST_FILE)
    weights = folder / weights_name([path.name for path in folder.iterdir()], str(folder))
    if not weights.is_file():
        raise UsageError(f"{weights} is no file that can be read", _RESTORE)
    tensors = _sharded(weights) if weights.suffix == ".json" else _tensors(weights)
    if not tensors:
        raise BrokenInputError(f"{weights} holds no tensors", _RESTORE)
    return Checkpoint(folder, CheckpointConfig(values, file), values, tensors, weights)


def weights_name(names: Collection[str], where: str) -> str:
    """Which of a checkpoint's files to read the weights from; the UsageError says what is there instead."""
    if found := [name for name in WEIGHTS_NAMES if name in names]:
        return found[0]
    for pattern, what in _OTHER_FORMATS.items():
        for name in fnmatch.filter(sorted(names), pattern):
            problem = f"{where} holds {what} ({name!r}), and tfcli reads {WEIGHTS_NAMES[0]} or {WEIGHTS_NAMES[2]}"
            raise UsageError(problem, "save the model with save_pretrained, or choose a checkpoint in safetensors")
    problem = f"{where} holds no weights, neither {WEIGHTS_NAMES[0]} nor {WEIGHTS_NAMES[2]}"
    raise UsageError(problem, "complete the folder, or choose another checkpoint")


def _sharded(index: Path) -> dict[str, Tensor]:
    """All the tensors that an index lists: the files must hold these and no others."""
    listed = read_object(index, LARGEST_FILE).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise BrokenInputError(f"{index} has no weight_map that says which tensor is in which file", _FETCH)
    for name, file in listed.items():
        if not isinstance(file, str):
            raise BrokenInputError(f"{index} has {name!r} in {file!r}, and the name of a file is needed", _FETCH)
    shards = {file: _shard(index, file) for file in sorted(set(listed.values()))}
    tensors: dict[str, Tensor] = {}
    for file, path in shards.items():
        tensors |= (found := _tensors(path))
        for name in found:
            if listed.get(name) != file:
                where = f"in {listed[name]!r}" if name in listed else "in none of its files"
                raise BrokenInputError(f"{path} has a tensor {name!r} that {index} has {where}", _FETCH)
    for name, file in listed.items():
        if name not in tensors:
            raise BrokenInputError(f"{shards[file]} lacks the tensor {name!r} that {index} lists", _FETCH)
    return tensors


def _shard(index: Path, file: str) -> Path:
    """The path of a shard, once it is clear that it is a file of the checkpoint and of the index's kind."""
    suffix = Path(index.name.removesuffix(".index.json")).suffix
    is_name = file.isprintable() and len(file.encode()) <= _LONGEST_NAME and not any(sign in file for sign in "/\\:")
    if not is_name or Path(file).suffix != suffix:
        problem = f"{index} names {shortened(repr(file))}, which is no {suffix} file of its folder"
        raise BrokenInputError(problem, "choose a checkpoint that you trust")
    path = index.parent / file
    if not path.is_file():
        raise BrokenInputError(f"{index} names {file!r}, and there is no such file beside it", _FETCH)
    folder = index.parent.resolve()
    repository = folder.parent.parent
    is_snapshot = folder.parent.name == "snapshots" and repository.name.startswith("models--")
    homes = [folder, repository / "blobs"] if is_snapshot else [folder]  # snapshots of the hub's cache are links
    if not any(path.resolve().is_relative_to(home) for home in homes):
        problem = f"{index} names {file!r}, a link that leaves its folder"
        raise BrokenInputError(problem, "copy the file itself into the folder")
    return path


def _tensors(path: Path) -> dict[str, Tensor]:
    """The finite tensors of a file, those of safetensors left there until they are used; float64 becomes float32."""
    try:
        tensors = _unpickled(path) if path.suffix == ".bin" else load_tensors(path)[0]
    except BrokenInputError as error:  # a run's own weights have another remedy
        if path.suffix == ".bin":
            raise
        raise BrokenInputError(error.problem, _RESTORE) from error
    return {name: _checked(name, tensor, path) for name, tensor in tensors.items()}


def _unpickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file written by `torch.save`: PyTorch's own interpreter of pickles puts tensors together and can
    do nothing else, so that no code of the file's choice runs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        problem = f"{path} is damaged, or a pickle that holds more than tensors and could run code"
        raise BrokenInputError(problem, "convert the checkpoint to safetensors where you trust it") from error
    except Exception as error:  # the reader raises many kinds over a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BrokenInputError(f"{path} is truncated or no PyTorch file ({reason[:200]})", _RESTORE) from error
    if not isinstance(values, dict):
        raise BrokenInputError(f"{path} holds a {type(values).__name__}, not tensors by name", _RESTORE)
    for name, value in values.items():
        if not (isinstance(name, str) and isinstance(value, Tensor)):
            raise BrokenInputError(f"{path} holds {name!r}, a {type(value).__name__}, among its tensors", _RESTORE)
        # It may be sparse, quantized, or a view that repeats a few numbers.
        is_dense = value.layout == torch.strided and not value.is_quantized and value.device.type == "cpu"
        if not is_dense or value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise BrokenInputError(f"{path}: tensor {name!r} is not stored number by number", _RESTORE)
    return values


def _checked(name: str, tensor: Tensor, path: Path) -> Tensor:
    if tensor.dtype not in (*_READ, *_KEPT):
        problem = f"{path}: tensor {name!r} is of the type {tensor.dtype}, which tfcli does not read"
        raise BrokenInputError(problem, "save the checkpoint in float32, float16 or bfloat16")
    if tensor.dtype == torch.float64:
        tensor = tensor.float()
    if tensor.dtype in _READ and not is_finite(tensor):
        problem = f"{path}: tensor {name!r} holds a value that is not finite"
        raise BrokenInputError(problem, "restore the file, or choose another checkpoint")
    return tensor.detach().contiguous()
