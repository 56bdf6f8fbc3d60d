"""Two linear maps in a row are one: the heads of the encoder notes, which project what is projected already."""

import torch
from torch import nn

from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import Measure, Step


def two_maps(subject: Subject) -> Step:
    """(X W_q) W_q⁽ⁱ⁾ beside X (W_q W_q⁽ⁱ⁾), with the layer's W_q and a random W_q⁽ⁱ⁾."""
    module = subject.layer.attention.query
    assert isinstance(module, nn.Linear)
    x, first = subject.layer_pass.attention.x, module.weight.T
    size = first.shape[1]
    second = torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(first) / size**0.5
    apart = float(((x @ first) @ second - x @ (first @ second)).abs().max())
    return Step(
        "Two linear maps in a row are one",
        "(X W_q) W_q⁽ⁱ⁾ = X (W_q W_q⁽ⁱ⁾)",
        measures=(Measure("largest deviation", apart, "rounding alone"),),
        note="Encoder notes (004) build heads, with d_k × d_k matrices, on Q, K and V that are projected already. For "
        "d_k ≥ D that is one map a head, and W_q could be left out; for d_k < D all heads see the same d_k dimensions.",
    )
