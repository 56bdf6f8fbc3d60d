"""How a model makes scores, as a formula with its numbers."""

import math

from tfcli.recipe.model import ModelSection
from tfcli.records.attention import AttentionKind

_POSITIONS = {"alibi": "ALiBi's bias", "t5": "T5's bias"}


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
