"""What a parameter is part of, by its name."""

from typing import Literal

ParameterPart = Literal["embeddings", "attention", "cross_attention", "feed_forward", "norms", "head"]


def part_of(name: str) -> ParameterPart:
    """The part of a model that a parameter belongs to.

    A norm is one of the norms wherever it stands. Tables of positions are embeddings, also where queries and keys alone
    get them; a bias of distances is part of the attention that adds it to its scores.

        >>> part_of("stack.layers.0.attention.query.weight"), part_of("stack.layers.0.attention_residual.norm.weight")
        ('attention', 'norms')

    Args:
        name: as `Transformer.named_parameters` has it.
    """
    modules = name.split(".")
    if any(module.endswith("norm") for module in modules):
        return "norms"
    if "cross_attention" in modules:
        return "cross_attention"
    if "attention" in modules or "relative_bias" in modules:
        return "attention"
    if "feed_forward" in modules:
        return "feed_forward"
    if "head" in modules:
        return "head"
    assert any(module == "positions" or module.endswith("embedding") for module in modules), name
    return "embeddings"
