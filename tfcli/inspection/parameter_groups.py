"""A model's parameters by what they belong to."""

import math
from collections import Counter
from collections.abc import Iterator

from tfcli.models.transformer import Transformer
from tfcli.records.model import ParameterGroup

_PARTS = {
    "attention": "attention",
    "attention_residual": "norms",
    "cross_attention": "cross-attention",
    "cross_attention_residual": "norms",
    "feed_forward": "feed-forward",
    "feed_forward_residual": "norms",
}
"""What the parts of a layer are called here."""


def parameter_groups(model: Transformer) -> Iterator[ParameterGroup]:
    """The parameters by what they belong to; equal parts of all layers are one group. A tied matrix counts once, where
    it is met first."""
    parts: dict[tuple[str, str], list[tuple[str, tuple[int, ...]]]] = {}
    for name, parameter in model.named_parameters():
        instance, kind, tensor = _placed(name)
        parts.setdefault((instance, kind), []).append((tensor, tuple(parameter.shape)))
    counted = Counter((kind, tuple(tensors)) for (_, kind), tensors in parts.items())
    for (kind, tensors), count in counted.items():
        yield ParameterGroup(kind, count, tensors, count * sum(math.prod(shape) for _, shape in tensors))


def _placed(name: str) -> tuple[str, str, str]:
    """Which part of which module a parameter belongs to: ("stack.layers.0", "stack attention", "query.weight")."""
    before, within, rest = name.partition(".layers.")
    if not within:
        module, _, tensor = name.rpartition(".")
        return module, module.replace("_", " ").replace(".", " "), tensor
    number, part, tensor = rest.split(".", 2)
    side = "" if before == "stack" else f"{before} "
    if _PARTS[part] == "norms":
        tensor = f"{part.removesuffix('_residual').replace('_', '-')} {tensor}"
    return f"{before}.{number}", f"{side}{_PARTS[part]}", tensor
