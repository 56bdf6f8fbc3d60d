"""Model configuration, ``config.json`` of a checkpoint, read setting by setting; what is not understood is refused."""

import shlex
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tfcli.errors import UsageError, shortened
from tfcli.files import read_object
from tfcli.recipe.model import LARGEST_SIZE

Value = TypeVar("Value")

LARGEST_FILE = 1 << 26
"""Bytes of a JSON or text file. The index of a model with a hundred thousand tensors has a tenth of it."""

WITHOUT_EFFECT = frozenset(
    {
        # Of the file and of other tasks than language modelling.
        "_name_or_path", "architectures", "auto_map", "chunk_size_feed_forward", "classifier_dropout", "dtype",
        "finetuning_task", "id2label", "is_encoder_decoder", "label2id", "model_type", "num_labels", "problem_type",
        "task_specific_params", "tokenizer_class", "torch_dtype", "transformers_version", "use_cache",
        "gradient_checkpointing", "return_dict", "output_attentions", "output_hidden_states", "torchscript",
        "attn_implementation", "prefix", "transformers.js_config", "unsloth_fixed", "unsloth_version",
        "initializer_range", "vocab_size",
        # Special tokens and defaults of generation, which are read with the tokenizer.
        "bos_token_id", "eos_token_id", "eos_token_ids", "pad_token_id", "sep_token_id", "cls_token_id",
        "mask_token_id", "unk_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
        "bad_words_ids",
        "max_length", "min_length", "num_beams", "do_sample", "temperature", "top_k", "top_p", "length_penalty",
        "early_stopping", "no_repeat_ngram_size", "repetition_penalty", "suppress_tokens", "begin_suppress_tokens",
        "diversity_penalty", "encoder_no_repeat_ngram_size", "num_beam_groups", "num_return_sequences",
        "output_scores", "remove_invalid_values", "return_dict_in_generate", "typical_p",
        "exponential_decay_length_penalty", "is_decoder", "cross_attention_hidden_size", "use_bfloat16",
        "tf_legacy_loss",
    }
)  # fmt: skip
"""Settings that change nothing about a language model's function; nor do those whose names begin with _."""


def read_optional(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint; empty where there is no such file."""
    return read_object(path, LARGEST_FILE) if path.exists() else {}


class CheckpointConfig:
    """The settings of a checkpoint. Each is asked for by name; `finish` refuses those that nobody asked for.

    Each method raises a UsageError that names the setting where it is missing or something else than asked for.

    Args:
        values: the parsed JSON object.
        file: how to name it in errors.
        inside: the setting whose object this is, where it is not the whole file.
    """

    def __init__(self, values: Mapping[str, Any], file: Path, inside: str = "") -> None:
        self.file, self._inside = file, inside
        self._values = dict(values)
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the setting is there and not null."""
        return self._values.get(name) is not None

    def says(self, name: str) -> bool:
        """Whether the setting is there, null or not: a family may take absence for its own default."""
        return name in self._values

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number of 1 or more, and no larger than any model's."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIZE:
            raise self._refusal(name, value, f"a whole number from 1 to {LARGEST_SIZE:,} is needed")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number of 0 or more."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
            raise self._refusal(name, value, "a number of 0 or more is needed")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self._refusal(name, value, "true or false is needed")
        return value

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
        value = self._value(name, {})
        if not isinstance(value, dict):
            raise self._refusal(name, value, "an object is needed")
        return value

    def finish(self, without_effect: Collection[str] = ()) -> None:
        """Refuse settings that were not asked for and are not known to change nothing; names the first."""
        self.fixed("pruned_heads", {}, reason="tfcli's layers all have the same heads")
        understood = self._read | WITHOUT_EFFECT | set(without_effect)
        for name, value in self._values.items():
            if value is not None and name not in understood and not name.startswith("_"):
                raise self._lacking(name, value, "tfcli does not know this setting of the family")

    def _value(self, name: str, default: Any) -> Any:
        self._read.add(name)
        value = self._values.get(name)
        if value is None and default is None:
            problem = f"{self.file} does not say {name!r}"
            raise UsageError(problem, "complete the file: the model cannot be built without")
        return default if value is None else value

    def _refusal(
        self, name: str, value: object, why: str, remedy: str = "correct the file, or choose another checkpoint"
    ) -> UsageError:
        return UsageError(f"{self.file} has {shortened(name)} = {shortened(repr(value))}, and {why}", remedy)

    def _lacking(self, name: str, value: object, why: str) -> UsageError:
        """The file may be right, and it is tfcli that lacks the setting."""
        key = f"{self._inside}.{name}" if self._inside else name
        remedy = f"where the model is the same without it, read it so: --ignore-setting {shlex.quote(key)}"
        return self._refusal(name, value, why, remedy)
