"""The attention weights and scores of a trained model on a text."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.inspection.attention.focus import focused
from tfcli.inspection.kinds import chosen_kinds, key_ids, query_ids
from tfcli.inspection.passes import ModelPass, record_model
from tfcli.inspection.reading import Inputs, read_text
from tfcli.recipe.model import ModelSection
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionKind, AttentionRecord
from tfcli.runs.load import LoadedRun

_POSITIONS = {"alibi": "ALiBi's bias", "t5": "T5's bias"}


def attention(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    kind: AttentionKind | None = None,
    *,
    beam: int | None = None,
    max_new_tokens: int | None = None,
) -> list[AttentionRecord]:
    """The weights of every layer and head, of one kind or of all that the model has.

    The text is read as `reading.read_text` says. Row t of a decoder's weights is what it looks at to predict the token
    after t.

    Args:
        beam: follow a search with so many beams: the target is the best text that it finds, and a decoder reads the
            best continuation behind the text.
        max_new_tokens: for that search; None: the recipe's.

    Raises:
        UsageError: the model has no attention of that kind or takes no target or beam, or a text is longer than the
            context.
    """
    chosen_kinds(run, kind)  # refused before anything is translated
    return attention_on(run, read_text(run, text, target, beam=beam, max_new_tokens=max_new_tokens), kind)


def attention_on(run: LoadedRun, inputs: Inputs, kind: AttentionKind | None = None) -> list[AttentionRecord]:
    """As `attention`, of ids that are there already.

    Raises:
        UsageError: the model has no attention of that kind.
    """
    kinds = chosen_kinds(run, kind)
    with torch.inference_mode():
        passed = record_model(run.model, inputs.tensors(run.device))
    return [attention_record(run, one, inputs, passed) for one in kinds]


def attention_record(run: LoadedRun, kind: AttentionKind, inputs: Inputs, passed: ModelPass) -> AttentionRecord:
    """One kind of attention of a pass that has been made: of `inputs`, by the run's model."""
    layers = passed.attentions(kind)
    tokenizer, queries, keys = run.tokenizer, query_ids(kind, inputs), key_ids(kind, inputs)
    record = AttentionRecord(
        kind,
        tuple(tokenizer.labels(queries)),
        tuple(tokenizer.labels(keys)),
        weights=_stacked([layer.weights for layer in layers]),
        scores=_stacked([layer.scores for layer in layers]),
        bias=None if layers[0].bias is None else _stacked([one.bias for one in layers if one.bias is not None]),
        formula=score_formula(run.config.model, kind),
        mask=frozen(layers[0].mask.cpu().numpy(), np.bool_),
        query_words=tokenizer.words(queries),
        key_words=tokenizer.words(keys),
    )
    return focused(record)


def _stacked(layers: list[Tensor]) -> NDArray[np.float32]:
    """Shape: a (H, T, S) a layer to (L, H, T, S)."""
    return frozen(torch.stack(layers).cpu().numpy())


def score_formula(model: ModelSection, kind: AttentionKind) -> str:
    """What stands before the softmax, with the divisor worked out.

    `model.size_per_head` is Dh, the size of a head's queries and keys, which is what the scores are divided by
    (Vaswani et al. 2017, equation 1), not the size of the model.
    """
    size = model.size_per_head
    formula = {
        "scaled_dot": f"scores = q · k / √Dh, √{size} = {math.sqrt(size):.4g}",
        "dot": "scores = q · k, not divided",
        "additive": "scores = v · tanh(q + k)",
        "parameter_free": "scores = x · x, not projected and not divided",
    }[model.attention_score]
    if model.attention_softcap is not None:
        cap = f"{model.attention_softcap:g}"
        formula += f"; capped to {cap} · tanh(score / {cap})"
    if kind == "cross":
        return formula
    if model.positions == "rotary":
        return formula + "; q and k are turned by their positions (rotary)"
    return f"{formula}; + {_POSITIONS[model.positions]}" if model.positions in _POSITIONS else formula
