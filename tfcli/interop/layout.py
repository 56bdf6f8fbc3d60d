"""What a family of checkpoints is to tfcli: how its config reads as a model section, and which tensor is which.

Each layout is written down once and serves both directions: import reads it from right to left, export from left to
right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from tfcli.interop.config import CheckpointConfig
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles


@dataclass(frozen=True)
class TensorMap:
    """One tensor of a checkpoint and the parameters it holds.

    Attributes:
        theirs: its name in the checkpoint.
        ours: the parameters; several lie one after the other along their first axis, in equal parts.
        transposed: whether the checkpoint keeps the matrix as (in, out).
        absent: value and shape to export where the run has no such parameter and this one changes nothing: a bias
            of zeros, a gain of ones. None: the parameter is always there.
        optional: whether a checkpoint may lack the tensor; `absent` then says what it stands for.
        shift: what ours has more, as the gain of a norm that is kept less 1.
        groups: how often the parameters lie one after the other, a part of each: once, or once a head.
        theirs_shape: its shape in the checkpoint where that is more than the parameter's, as (1, Vocab) for (Vocab,).
    """

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False
    absent: tuple[float, tuple[int, ...]] | None = None
    optional: bool = False
    theirs_shape: tuple[int, ...] | None = None
    groups: int = 1
    shift: float = 0.0


@dataclass(frozen=True)
class Layout:
    """One family of checkpoints.

    Attributes:
        name: gpt2, bert, llama, …
        model_types: the `model_type`s of config.json that it reads.
        prefix: what base-model checkpoints leave out in front of their names, as "transformer.".
        read: config.json → model section.
        tensors: the tensors of a model of this section, under the names of the class with a language-model head.
        write: model section and roles → config.json; raises `Inexpressible` where the family lacks the variant.
        headless: whether checkpoints without a language-model head can be told by their lack of tensors whose names
            begin so, as "cls.predictions."; None: they all have one (or it is tied).
        untied_by: a head and the embedding it may share, where config.json does not say whether it does: they are tied
            unless the checkpoint holds two different ones.
        settle: the section with what else only the tensors say.
        factors: patterns of parameters (the head's among them, if it is tied too), and what to multiply them by, from
            config.json: settings that tfcli has no word for.
        copies: names of tensors that may repeat another one: {"lm_head.weight": "model.embed_tokens.weight"}.
        constants: patterns (`re.fullmatch`) of tensors that hold what the code computes by itself, not read.
        heads: patterns of heads for other tasks that lie within parts of the model; they are left over, and listed, as
            is whatever lies outside of them.
        headless_lacks: what the library's headless class has and tfcli's models do not, as "pooler.dense.weight".
        renames: old endings of names and today's: {"LayerNorm.gamma": "LayerNorm.weight"}.
    """

    name: str
    model_types: tuple[str, ...]
    prefix: str
    read: Callable[[CheckpointConfig], ModelSection]
    tensors: Callable[[ModelSection], Sequence[TensorMap]]
    write: Callable[[ModelSection, TokenRoles], dict[str, Any]]
    headless: str | None = None
    untied_by: tuple[str, str] | None = None
    settle: Callable[[ModelSection, Mapping[str, Tensor]], ModelSection] = lambda section, _: section
    factors: Callable[[Mapping[str, Any], ModelSection], Mapping[str, float]] = lambda values, section: {}
    copies: Callable[[ModelSection], Mapping[str, str]] = lambda _: {}
    constants: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    headless_lacks: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)


class Inexpressible(Exception):
    """A run's variant does not exist in a family: the setting that stands in the way, its value, and why."""

    def __init__(self, setting: str, value: object, reason: str) -> None:
        super().__init__(f"model.{setting} = {value!r}: {reason}")
        self.setting, self.value, self.reason = setting, value, reason


def require(model: ModelSection, reason: str, **wanted: object) -> None:
    """Check settings that a family has in one form only.

    Args:
        reason: why, as "GPT-2 adds learned positions".
        wanted: settings or properties of the section, with the value each must have (or a tuple of such values).

    Raises:
        Inexpressible: at the first that differs.
    """
    for name, value in wanted.items():
        allowed = value if isinstance(value, tuple) else (value,)
        # A layout that is left open stands for the usual one.
        there = model.layout if name == "position_layout" else getattr(model, name)
        if there not in allowed:
            raise Inexpressible(name, there, reason)
