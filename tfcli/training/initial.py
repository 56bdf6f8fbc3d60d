"""Warm start: begin with the weights of another run."""

from dataclasses import fields, replace

from tfcli.errors import UsageError
from tfcli.models.build import weightless
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.runs.config import RunConfig
from tfcli.runs.load import StoredRun
from tfcli.runs.weights import model_tensors


def take_weights(model: Transformer, config: RunConfig, initial: StoredRun) -> None:
    """Copy a run's weights into a model. To a run without a head, the model may have one, which then begins afresh.

    Raises:
        UsageError: the run has another tokenizer, or is another model.
        BrokenInputError: its weights are damaged.
    """
    _require_same_tokenizer(config, initial)
    require_same_model(config.model, initial)
    initial.fill(model, only=model_tensors(weightless(initial.config.model)))


def _require_same_tokenizer(config: RunConfig, initial: StoredRun) -> None:
    where = initial.directory.path
    if initial.config.tokenizer_fingerprint != config.tokenizer_fingerprint:
        raise UsageError(
            f"The run {where} has another tokenizer", f"use its own: --set tokenizer.path={where / 'tokenizer.json'}"
        )


def require_same_model(model: ModelSection, initial: StoredRun) -> None:
    """Refuse, before any work, to begin a model with the weights of another one.

    Raises:
        UsageError: names the first setting that differs. A vocabulary that is still open is the tokenizer's.
    """
    ours, theirs = _computed(model), _computed(initial.config.model)
    if ours.vocab_size is None:
        ours = replace(ours, vocab_size=theirs.vocab_size)
    if theirs.head == "none":
        ours = replace(ours, head="none", head_bias=False, scale_logits=False, tie_embeddings=theirs.tie_embeddings)
    for setting in fields(ModelSection):
        here, there = getattr(ours, setting.name), getattr(theirs, setting.name)
        if here != there:
            raise UsageError(
                f"The run {initial.directory.path} is another model: its model.{setting.name} is {there!r}, not {here!r}",
                f"use its settings: --recipe {initial.directory.recipe}",
            )


def _computed(model: ModelSection) -> ModelSection:
    """What decides which function weights stand for: defaults written out, and left out what only training sees.

    Equal shapes are not enough: the number of heads, for one, changes no shape.
    """
    default = ModelSection
    return replace(
        model,
        num_kv_heads=model.kv_heads,
        head_dim=model.size_per_head,
        d_ff=model.inner_size,
        position_layout=model.layout if model.positions in ("sinusoidal", "rotary") else None,
        norm_bias=model.has_norm_bias,
        attention_output_bias=model.has_output_bias,
        scale_embeddings=model.embedding_scale != 1.0,
        max_seq_len=model.max_seq_len if model.positions == "learned" else default.max_seq_len,
        dropout=default.dropout,
        embedding_dropout=default.embedding_dropout,
        attention_dropout=default.attention_dropout,
        activation_dropout=default.activation_dropout,
        initialization=default.initialization,
        init_std=default.init_std,
    )
