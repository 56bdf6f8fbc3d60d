"""Begin with the weights of another run."""

from dataclasses import fields, replace

import torch

from tfcli.errors import UsageError
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.runs.config import RunConfig
from tfcli.runs.load import LoadedRun
from tfcli.runs.weights import model_tensors


def take_weights(model: Transformer, config: RunConfig, initial: LoadedRun) -> None:
    """Copy a run's weights into a model.

    Raises:
        UsageError: the run has another tokenizer, or is another model (names the setting that differs).
    """
    _require_same(config, initial)
    with torch.no_grad():
        theirs = model_tensors(initial.model)
        for name, parameter in model_tensors(model).items():
            parameter.copy_(theirs[name])


def _require_same(config: RunConfig, initial: LoadedRun) -> None:
    where = initial.directory.path
    if initial.config.tokenizer_fingerprint != config.tokenizer_fingerprint:
        raise UsageError(
            f"The run {where} has another tokenizer", f"use its own: --set tokenizer.path={where / 'tokenizer.json'}"
        )
    ours, theirs = _computed(config.model), _computed(initial.config.model)
    for field in fields(ModelSection):
        here, there = getattr(ours, field.name), getattr(theirs, field.name)
        if here != there:
            raise UsageError(
                f"The run {where} is another model: its model.{field.name} is {there!r}, not {here!r}",
                f"use its settings: --recipe {initial.directory.recipe}",
            )


def _computed(model: ModelSection) -> ModelSection:
    """What decides which function weights stand for: defaults written out, and left out what only training sees.

    Equal shapes are not enough: the number of heads, for one, changes no shape.
    """
    return replace(
        model,
        num_kv_heads=model.kv_heads,
        head_dim=model.size_per_head,
        d_ff=model.inner_size,
        scale_embeddings=model.embedding_scale != 1.0,
        max_seq_len=model.max_seq_len if model.positions == "learned" else ModelSection.max_seq_len,
        dropout=0.0,
        init_std=ModelSection.init_std,
        attention_init=ModelSection.attention_init,
    )
