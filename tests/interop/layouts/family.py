"""What the tests must know of a family of checkpoints."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tfcli.interop.families.layout import CheckpointFamily
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

from . import reference

transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")

Values = Mapping[str, Any]
Tensors = Mapping[str, Tensor]


RUN = ModelSection(
    vocab_size=11, max_seq_len=9, d_model=12, num_layers=2, num_heads=3, query_key_norm=False, scale_embeddings=False
)
"""A small run, of Llama's variant: what the others begin from."""

ELSEWHERE: Values = {
    "embedding_norm": True,
    "num_kv_heads": 1,
    "head_dim": 2,
    "query_key_norm": True,
    "sliding_window": 4,
    "attention_softcap": 30.0,
    "head": "transform",
    "head_bias": True,
    "scale_logits": True,
    "scale_embeddings": None,  # They are scaled, because the initialization is `copying`.
}
"""What most families do not have."""


def to_float64(model: Any) -> Any:
    """The model in float64, for families that compute in the type of their weights."""
    return model.to(torch.float64)


@dataclass(frozen=True)
class Family:
    """A family: how its models are drawn and made, and tables of what must hold.

    Attributes:
        config_class: of `transformers`.
        model_class: of `transformers`, with a language-model head.
        small: settings of a small model, those that a file cannot do without and a few more.
        settings: draws the settings of a config.
        run: a section of the family's variant, with fewer parts than it may have.
        make: a model with lively weights, from a config and a seed.
        models: draws models; None: `make` of `settings`.
        in_float64: the same model, computing in float64; None: it casts to float32 inside.
        longest: longest texts to try; None: the model's context.
        exports: changes of `run` that the family has too.
        own: settings among `ELSEWHERE` that the family has too.
        inexpressible: the setting that is named, and a change of `run` that the family does not have either.
        refused: settings of a file that mean another model, and what is named.
        broken: settings, tensors put into the checkpoint (None: taken out), and what is named.
        left_over: class, settings, and names of the tensors of a head for another task.
        old_settings: of the models that `old_files` are for.
        old_files: a model's tensors as older files of it have them.
        published: config.json of published models, and their parameter counts.
        variants: settings that make others matter, each to be perturbed too.
    """

    layout: CheckpointFamily
    config_class: str
    model_class: str
    small: dict[str, Any]
    settings: Callable[[], st.SearchStrategy[dict[str, Any]]]
    run: ModelSection
    make: Callable[["Family", Any, int], Any] = lambda family, config, seed: reference.lively(
        getattr(transformers, family.model_class)(config), seed
    )
    models: Callable[["Family"], st.SearchStrategy[Any]] | None = None
    in_float64: Callable[[Any], Any] | None = to_float64
    longest: int | None = None
    exports: Sequence[Values] = ({},)
    own: Sequence[str] = ()
    inexpressible: Sequence[tuple[str, Values]] = ()
    refused: Sequence[tuple[Values, str]] = ()
    broken: Sequence[tuple[Values, Mapping[str, Tensor | None], str]] = ()
    left_over: Sequence[tuple[str, Values, Sequence[str]]] = ()
    old_settings: Values = field(default_factory=dict)
    old_files: Callable[[Tensors], Iterable[Tensors]] = lambda tensors: [tensors]
    published: Sequence[tuple[Values, int]] = ()
    variants: Sequence[Values] = ({},)

    def config(self, **changes: Any) -> Any:
        """The config of a small model."""
        values = {**self.small, **changes}
        return getattr(transformers, self.config_class)(**values, attn_implementation="eager")

    def file(self, **changes: Any) -> dict[str, Any]:
        """The config.json of a small model as it is saved, with other values."""
        return {**self.config().to_diff_dict(), **changes}

    def model(self, **changes: Any) -> Any:
        """A small model."""
        return self.make(self, self.config(**changes), 0)

    def drawn(self) -> st.SearchStrategy[Any]:
        """Models of all variants."""
        if self.models is not None:
            return self.models(self)
        configs = self.settings().map(lambda values: self.config(**values))
        return st.builds(self.make, st.just(self), configs, st.integers(0, 99))

    def ours(self, **changes: Any) -> Transformer:
        """A run of the family's variant, with lively weights."""
        return reference.lively(reference.build_model(replace(self.run, **changes)))

    def not_there(self) -> list[tuple[str, Values]]:
        """Every setting that is named, with the change of `run` that the family does not have."""
        elsewhere: list[tuple[str, Values]] = [
            (name, {name: value}) for name, value in ELSEWHERE.items() if name not in self.own
        ]
        return [*elsewhere, *self.inexpressible]
