"""Families of checkpoints: settings of config.json read and written, tensors by their names."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any

from torch import Tensor

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

Fields = Mapping[str, Any]  # fields of a model section, or settings of a config.json, by name
Names = Mapping[str, str]  # of tensors, or of what has some: theirs, and ours

_BY_TANH = ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh")
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "relu2": "relu2", "gelu": "gelu", "gelu_python": "gelu"}
ACTIVATIONS |= {**dict.fromkeys(_BY_TANH, "gelu_tanh"), "silu": "silu", "swish": "silu"}  # by checkpoints' names
WRITTEN: dict[Activation, str] = {ours: ours for ours in ACTIVATIONS.values()} | {"gelu_tanh": "gelu_new"}  # for export


class UnsupportedVariantError(Exception):
    """A family does not have the variant of a run: the setting that stands in the way, and its value."""

    def __init__(self, setting: str, value: object) -> None:
        super().__init__(f"model.{setting} = {value!r}")
        self.setting = setting


_SETTLED = {"d_ff": "inner_size", "num_kv_heads": "kv_heads", "head_dim": "size_per_head"}  # what settles it if open
_SETTLED |= {"num_decoder_layers": "decoder_layers"}
_SETTLED |= {name: f"{name}_rate" for name in ("attention_dropout", "embedding_dropout")}


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
            lambda config: dict.fromkeys(of, read(config)), lambda model, _: dict.fromkeys(names, getattr(model, field))
        )

    @staticmethod
    def integers(default: int | Callable[[CheckpointConfig], int] | None = None, **of: str) -> "tuple[Setting, ...]":
        """Sizes, each with its field. `default`: what a file means that does not say it; None: it must."""

        def read(name: str, config: CheckpointConfig) -> int:
            return config.integer(name, default(config) if callable(default) else default)

        return tuple(Setting.of([name], [field], partial(read, name)) for name, field in of.items())

    @staticmethod
    def numbers(default: float | None = None, **of: str) -> "tuple[Setting, ...]":
        """Numbers of 0 or more, each with its fields, parted by spaces."""
        reads = {name: partial(CheckpointConfig.number, name=name, default=default) for name in of}
        return tuple(Setting.of([name], of[name].split(), read) for name, read in reads.items())

    @staticmethod
    def flag(name: str, *of: str, default: bool) -> "Setting":
        """True or false."""
        return Setting.of([name], of, lambda config: config.flag(name, default))

    @staticmethod
    def either(name: str, of: str, yes: str, no: str) -> "Setting":
        """True, as where the file does not say it, or false: a field with the one value or the other."""
        return Setting(
            lambda config: {of: yes if config.flag(name, True) else no},
            lambda section, _: {name: getattr(section, of) == yes},
        )

    @staticmethod
    def activation(
        name: str, usual: str, known: dict[str, Activation] = ACTIVATIONS, written: dict[Activation, str] = WRITTEN
    ) -> "Setting":
        """The activation of the feed-forward, by their names and by the one that is written."""
        return Setting(
            lambda config: {"activation": config.choice(name, known, usual)},
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

        def read(name: str, first: str, config: CheckpointConfig) -> Fields:
            value = config.integer(first, default)
            config.fixed(name, value, reason=reason or f"{first}, another name of the same, is {value}")
            return {}

        return tuple(Setting(partial(read, name, first)) for name, first in of.items())

    @staticmethod
    def constants(**values: object) -> "Setting":
        """Settings that are written as they are, and say nothing of the model."""
        return Setting(write=lambda section, roles: values)

    @staticmethod
    def architecture(model_class: str) -> "Setting":
        """The class of `transformers` that loads the model: with its head, or its base class."""

        def write(section: ModelSection, _: TokenRoles) -> Fields:
            has_head = section.head != "none"
            return {"architectures": [model_class if has_head else base_class(model_class)]}

        return Setting(write=write)

    @staticmethod
    def family(model_type: str, model_class: str) -> "tuple[Setting, ...]":
        """The family, and the class of `transformers` that loads the model."""
        return (Setting.constants(model_type=model_type), Setting.architecture(model_class))

    @staticmethod
    def tying(default: bool) -> "Setting":
        """Whether head and embeddings share a matrix. A base model, which has no head, says false:
        a reader could not tell it from a model whose head is the embedding matrix."""
        return Setting(
            lambda config: {"tie_embeddings": config.flag("tie_word_embeddings", default)},
            lambda section, _: {"tie_word_embeddings": section.tie_embeddings and section.head != "none"},
        )


def base_class(model_class: str) -> str:
    """The class of `transformers` without a head: "LlamaModel" for "LlamaForCausalLM"."""
    return re.sub(r"(LMHeadModel|For(CausalLM|MaskedLM))$", "Model", model_class)


def written_tokens(roles: TokenRoles) -> dict[str, Any]:
    """The settings of special tokens that every family has."""
    ends = [roles.eos, *roles.more_ends] if roles.more_ends else roles.eos
    return {"bos_token_id": roles.bos, "eos_token_id": ends, "pad_token_id": roles.pad}


def target_tokens(roles: TokenRoles) -> dict[str, Any]:
    """With those that a target begins with, for which there are two settings."""
    names = ("decoder_start_token_id", "forced_bos_token_id")
    if len(roles.target_prefix) > len(names):
        raise UnsupportedVariantError("target_start", roles.target_prefix)
    return {**written_tokens(roles), **dict(zip(names, roles.target_prefix, strict=False))}


TOKENS = Setting(write=lambda _, roles: written_tokens(roles))
TARGET_TOKENS = Setting(write=lambda _, roles: target_tokens(roles))
_BOTH = "tfcli reads both sides of this family"
BOTH_SIDES = (  # half an encoder-decoder is refused
    Setting.fixed("is_encoder_decoder", True, reason=_BOTH, written=True),
    Setting.fixed("is_decoder", False, reason=_BOTH),
)

_PLAIN_FORM: dict[str, Any] = {  # what most families have alike, checked in this order
    "position_merge": "add",
    "position_offset": 0,
    "token_types": 0,
    "embedding_norm": False,
    "num_kv_heads": lambda section: section.num_kv_heads in (None, section.num_heads),
    "head_dim": lambda section: section.head_dim in (None, section.d_model / section.num_heads),
    "residuals": True,
    "parallel_residual": False,
    "attention_score": "scaled_dot",
    "query_key_norm": False,
    **dict.fromkeys(("sliding_window", "attention_softcap")),
    "activation": tuple(WRITTEN),
    "head": ("linear", "none"),
    **dict.fromkeys(("head_bias", "scale_logits", "scale_embeddings"), False),
}


def _one_form(form: Fields) -> dict[str, Any]:
    """The fields that have one value only."""
    names = form.keys() & {one.name for one in fields(ModelSection)}
    return {name: form[name] for name in names if not (callable(form[name]) or isinstance(form[name], tuple))}


_UNSAID: dict[str, Any] = {"position_scaling": 1.0, "position_scaling_kind": "linear", "position_low_turns": 1.0}
_UNSAID |= {"head": "linear"}
_UNSAID |= {"norm": "layernorm", "norm_affine": True, "norm_bias": True, "initialization": "bert", "init_std": 0.02}
_UNSAID |= dict.fromkeys(("dropout", "embedding_dropout", "attention_dropout", "activation_dropout"), 0.0)
_UNSAID |= dict.fromkeys(("attention_bias", "feed_forward_bias"), False)
_PLAIN = ModelSection(**_one_form(_PLAIN_FORM), **_UNSAID)  # where a family starts: no default of recipes decides

BIASED = dict.fromkeys(("attention_bias", "attention_output_bias", "feed_forward_bias"), True)  # before Llama
UNBIASED = {"attention_bias": False, "attention_output_bias": (None, False), "feed_forward_bias": False}


def full_form(own: Fields, *free: str, last: Fields | None = None) -> dict[str, Any]:
    """A family's form of every setting, in the order of the checks: a value, several in a tuple, or a condition on the
    section. First its `own`, then what most families have but the `free` settings (it has all forms), then `last`."""
    plain = {name: value for name, value in _PLAIN_FORM.items() if name not in free and name not in own}
    return {**own, **plain, **(last or {})}


@dataclass(frozen=True)
class TensorMap:
    """One tensor of a checkpoint and the parameters it holds."""

    theirs: str
    ours: tuple[str, ...]  # several lie one after the other along their first axis, in equal parts
    transposed: bool = False  # whether the checkpoint keeps the matrix as (in, out)
    optional: bool = False  # whether a checkpoint may lack the tensor, which then stands for zeros
    theirs_shape: tuple[int, ...] | None = None  # where it is more than the parameter's, as (1, Vocab) for (Vocab,)
    groups: int = 1  # how often the parameters lie one after the other, a part of each: once, or once a head
    shift: float = 0.0  # what ours has more, as the gain of a norm that is kept less 1


def projections(theirs: str, output: str = "o", ours: str = "attention") -> dict[str, str]:
    """Their names of an attention's matrices, with the first letter of each in place of {}, and ours."""
    letters = {"query": "q", "key": "k", "value": "v", "output": output}
    return {theirs.format(letter): f"{ours}.{name}" for name, letter in letters.items()}


def named(names: Names) -> list[TensorMap]:
    """Tensors that are a parameter each."""
    return [TensorMap(theirs, (ours,)) for theirs, ours in names.items()]


def affine(theirs: str, ours: str, names: Names, *, transposed: bool = False, groups: int = 1) -> list[TensorMap]:
    """Affine maps and norms by their names and ours: a weight and a bias each, as far as a model has them. Several of
    our names, parted by spaces, lie side by side in one of theirs, a part of each so often as `groups` says."""
    maps = []
    for (their, our), kind in product(names.items(), ("weight", "bias")):
        parts = tuple(f"{ours}.{one}.{kind}" for one in our.split())
        turned = transposed and kind == "weight" and not our.endswith("norm")
        maps.append(TensorMap(f"{theirs}{their}.{kind}", parts, turned, groups=groups))
    return maps


def layers(section: ModelSection, theirs: str, names: Names, ours: str = "stack", **how: Any) -> list[TensorMap]:
    """What `affine` says of each layer of a stack."""
    number = section.decoder_layers if ours == "decoder" else section.num_layers
    return [one for i in range(number) for one in affine(f"{theirs}.{i}.", f"{ours}.layers.{i}", names, **how)]


@dataclass(frozen=True)
class CheckpointFamily:
    """One family of checkpoints. Patterns are for `re.fullmatch`."""

    name: str  # gpt2, bert, llama, …
    settings: Sequence[Setting]  # of config.json, in the order in which they are written
    form: Mapping[str, Any]  # what the family has of each setting of a model section (`full_form`)
    body: Callable[[ModelSection], Sequence[TensorMap]]  # all but the head's matrix, named as by the class with a head
    head: tuple[str, str]  # the names of the head's matrix, and of the embedding that it is where they are tied
    prefix: str  # what base-model checkpoints leave out in front of their names, as "transformer."
    also_named: tuple[str, ...] = ()  # further `model_type`s of config.json that it reads
    given: Fields = field(default_factory=dict)  # what a file means without saying it, beside the fields of `form`
    without_effect: tuple[str, ...] = ()  # settings of the family that change nothing about the model
    headless: str | None = None  # how names begin that those without a head lack; None: all have one, or a tied one
    tied_by_tensors: bool = False  # config.json does not say it: they are tied unless the checkpoint holds two
    settle: Callable[[ModelSection, Mapping[str, Tensor]], ModelSection] = lambda section, _: section  # by tensors
    # What to multiply parameters by, by pattern, a tied head's too: settings that tfcli has no word for.
    factors: Callable[[Fields, ModelSection], Mapping[str, float]] = lambda values, section: {}
    repeated: Callable[[ModelSection], Mapping[str, str]] = lambda _: {}  # further tensors that may repeat another one
    constants: tuple[str, ...] = ()  # patterns of tensors that hold what the code computes by itself, not read
    heads: tuple[str, ...] = ()  # patterns of other tasks' heads within the model: left over, as is all outside
    headless_lacks: tuple[str, ...] = ()  # what the library's headless class has beside, as "pooler.dense.weight"
    renames: Mapping[str, str] = field(default_factory=dict)  # old endings: {"LayerNorm.gamma": "LayerNorm.weight"}
    filled: Callable[[ModelSection], Fields] = lambda section: {}  # what a run goes out with beside biases `given`

    def read(self, config: CheckpointConfig) -> ModelSection:
        """The model section of a config.json; UsageError where a setting is missing, wrong, or none of tfcli's."""
        said = {name: value for setting in self.settings for name, value in setting.read(config).items()}
        config.finish(self.without_effect)
        return replace(_PLAIN, **{**_one_form(self.form), **self.given, **said})

    def write(self, section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
        """The config.json of a model; UnsupportedVariantError where the family lacks the variant."""
        # A layout that is left open stands for the usual one, and of a scale the factor counts.
        settled = {"position_layout": section.layout, "scale_embeddings": section.embedding_scale != 1}
        for name, wanted in self.form.items():
            value = settled[name] if name in settled else getattr(section, name)
            allowed = wanted if isinstance(wanted, tuple) else (wanted,)
            if not (wanted(section) if callable(wanted) else value in allowed):
                raise UnsupportedVariantError(name, value)
        return {name: value for setting in self.settings for name, value in setting.write(section, roles).items()}

    def whole(self, section: ModelSection) -> ModelSection:
        """The section with all biases and gains that its checkpoint has."""
        given = {name: True for name in (*BIASED, *["head_bias"] * (section.head != "none")) if self.given.get(name)}
        gains = {"norm_affine": True, "norm_bias": section.norm == "layernorm"}
        return replace(section, **{**gains, **given, **self.filled(section)})

    def tensors(self, section: ModelSection, parameters: Container[str]) -> list[TensorMap]:
        """The tensors of a model of this section that has these parameters."""
        own_head = {} if section.tie_embeddings or section.head == "none" else {self.head[0]: "head.weight"}
        return [one for one in (*self.body(section), *named(own_head)) if one.ours[0] in parameters]

    def copies(self, section: ModelSection) -> dict[str, str]:
        """Names of tensors that may repeat another one: {"lm_head.weight": "model.embed_tokens.weight"}."""
        if section.head == "none":
            return {}
        return dict([self.head] * section.tie_embeddings) | dict(self.repeated(section))
