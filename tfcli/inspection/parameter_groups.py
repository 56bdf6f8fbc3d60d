"""A model's parameters by what they belong to."""

import math
from collections import Counter
from collections.abc import Iterator

from tfcli.models.parameter_parts import part_of
from tfcli.models.transformer import Transformer
from tfcli.records.model import ParameterGroup


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
    number, module, tensor = rest.split(".", 2)
    side = "" if before == "stack" else f"{before} "
    part = part_of(name)
    if part == "norms":
        tensor = f"{module.removesuffix('_residual').replace('_', '-')} {tensor}"
    return f"{before}.{number}", f"{side}{part.replace('_', '-')}", tensor
