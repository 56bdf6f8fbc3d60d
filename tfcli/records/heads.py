"""Where an attention head is: its layer and its number in that layer, both from 0, written as ``1.0``."""

import re
from typing import NamedTuple

from tfcli.errors import UsageError, shortened

_NUMBER = re.compile("[0-9]{1,18}")  # a longer number would fit into no machine's word
_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


class HeadPlace(NamedTuple):
    """A layer and a head of it, both from 0; None where it is left open."""

    layer: int | None = None
    head: int | None = None


def parse_place(text: str, option: str = "--head", noun: str = "head") -> tuple[int, int]:
    """Read the layer and the head, or another `noun` of a layer, that a text such as "1.0" names.

    The parts are whole numbers: "1.10" is head 10 of layer 1, and "1.1" is its head 1.

    Raises:
        UsageError: The text is written differently.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        remedy = f"write LAYER.{noun.upper()}, both counted from 0, such as {_written(option, '1.0')}"
        raise UsageError(f"{_written(option, shortened(text))} is not a {noun}", remedy)
    return int(match[1]), int(match[2])


def read_head(
    layer: int | None, head: str | int | float | None, layer_option: str = "--layer", head_option: str = "--head"
) -> HeadPlace:
    """Read a choice of heads: "1.0", or a layer alone, or a head's number beside its layer.

    A number without a layer leaves the layer open: `require_head` accepts it for a model with one layer.

    Args:
        layer: The layer that was chosen by itself.
        head: The head as it was written.
        layer_option: What the layer is called in messages: an option, or a key of a recipe.
        head_option: The same for the head.

    Raises:
        UsageError: The head is written differently, or is in another layer than `layer`.
    """
    if isinstance(head, float):
        problem = f"{head_option.lstrip('-')} = {head} is a number, in which 1.1 and 1.10 are the same"
        raise UsageError(problem, f'write a text: {head_option.lstrip("-")} = "1.0"')
    if head is None or isinstance(head, int):
        return HeadPlace(layer, head)
    if not isinstance(head, str):
        problem = f"{head_option.lstrip('-')} = {shortened(repr(head))} is not a text"
        raise UsageError(problem, f'write the layer and the head as one: {head_option.lstrip("-")} = "1.0"')
    if _NUMBER.fullmatch(head):
        return HeadPlace(layer, int(head))
    place = HeadPlace(*parse_place(head, head_option))
    if layer not in (None, place.layer):
        problem = f"{_written(layer_option, layer)} and {_written(head_option, head)} name two layers"
        raise UsageError(problem, f"leave {layer_option} out")
    return place


def require_head(place: HeadPlace, num_layers: int, num_heads: int, option: str = "--head") -> HeadPlace:
    """Return the same place, with the layer of a model that has only one.

    Args:
        place: What was chosen.
        num_layers: Layers of the model.
        num_heads: Heads of each layer.
        option: What the head is called in messages.

    Raises:
        UsageError: The model has no such layer or head, or several layers and none was named.
    """
    layer, head = place
    if layer is not None and layer >= num_layers:
        raise UsageError(f"There is no layer {layer}: the model has {num_layers}", f"choose 0 to {num_layers - 1}")
    if head is None:
        return place
    if layer is None and num_layers > 1:
        example = _written(option, f"0.{min(head, num_heads - 1)}")
        problem = f"{_written(option, head)} names no layer, and the model has {num_layers} layers"
        raise UsageError(problem, f"write LAYER.HEAD, such as {example}")
    layer = layer or 0
    if head >= num_heads:
        known = f"heads 0 to {num_heads - 1}" if num_heads > 1 else "head 0 alone"
        example = _written(option, f"{layer}.{num_heads - 1}")
        raise UsageError(f"There is no head {layer}.{head}: layer {layer} has {known}", f"write for example {example}")
    return HeadPlace(layer, head)


def _written(option: str, value: str | int | None) -> str:
    """An option with its value as it is typed, or a key as a recipe or Python has it."""
    if option.startswith("-"):
        return f"{option} {value}"
    return f'{option} = "{value}"' if isinstance(value, str) else f"{option} = {value}"
