"""Tensors of a checkpoint as parameters of a model, and back: names, shapes, transposed and joined matrices."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, shortened
from tfcli.interop.layout import Layout, TensorMap
from tfcli.models.build import weightless
from tfcli.recipe.model import ModelSection

_REMEDY = "the file is damaged, or config.json belongs to another checkpoint"


@dataclass(frozen=True)
class Taken:
    """A checkpoint's tensors under tfcli's names, and those that were left over, which the model does not need."""

    parameters: dict[str, Tensor]
    left_over: list[str]


def canonical_names(layout: Layout, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names of today's class with a language-model head.

    Old endings are renamed, and base-model checkpoints, which leave the prefix out, get it.
    """
    renamed = {_new_name(layout, name, tensors): tensor for name, tensor in tensors.items()}
    if any(name.startswith(layout.prefix) for name in renamed):
        return renamed
    return {layout.prefix + name: tensor for name, tensor in renamed.items()}


def _new_name(layout: Layout, name: str, tensors: Mapping[str, Tensor]) -> str:
    """Today's name of a tensor; where another tensor has it, the old one stays, and `take` refuses it."""
    for old, new in layout.renames.items():
        if name.endswith(old) and name.removesuffix(old) + new not in tensors:
            return name.removesuffix(old) + new
    return name


def settled_section(layout: Layout, section: ModelSection, tensors: Mapping[str, Tensor]) -> ModelSection:
    """The section with what config.json leaves to the tensors: whether there is a head, and whether it is tied.

    Args:
        tensors: under canonical names.
    """
    if layout.headless is not None and not any(name.startswith(layout.headless) for name in tensors):
        section = replace(section, head="none", head_bias=False, tie_embeddings=True)
    if layout.tied_by_tensors:
        head, embedding = (tensors.get(name) for name in layout.head)
        tied = head is None or (embedding is not None and _equal(head, embedding))
        section = replace(section, tie_embeddings=tied)
    return layout.settle(section, tensors)


def take(
    layout: Layout, section: ModelSection, tensors: Mapping[str, Tensor], where: Path, names: Collection[str] = ()
) -> Taken:
    """Read a checkpoint's tensors as the parameters of a model of this section.

    Args:
        tensors: under canonical names.
        names: as the file has them; empty: the same.

    Raises:
        BrokenInputError: one is missing, or contradicts the one it repeats; or a part of the model has one more. Names
            the file and the tensor.
    """
    _require_layers(section, tensors, where)
    shapes = parameter_shapes(section)
    parameters: dict[str, Tensor] = {}
    left = dict(tensors)
    maps = layout.tensors(section)
    for one in maps:
        if one.theirs not in left and not one.optional:
            raise BrokenInputError(f"{where} lacks the tensor {one.theirs!r}", _REMEDY)
        parameters |= _parts(one, left.pop(one.theirs, None), _their_shape(one, shapes), where)
    for name, original in layout.copies(section).items():
        if name in left and not _equal(left.pop(name), tensors[original]):
            raise BrokenInputError(f"{where}: tensor {name!r} is not {original!r}, as config.json says", _REMEDY)
    parts = {_part(layout, name) for name in (*(one.theirs for one in maps), *layout.copies(section))}
    left_over = []
    for name in sorted(name for name in left if not _matches(name, layout.constants)):
        in_file = name if not names or name in names else name.removeprefix(layout.prefix)
        within = _part(layout, name) in parts or (layout.prefix and in_file.startswith(layout.prefix))
        if within and not _matches(name, layout.heads):
            raise BrokenInputError(
                f"{where} has a tensor {shortened(repr(in_file))} that a {layout.name} model does not", _REMEDY
            )
        left_over.append(in_file)
    return Taken(parameters, left_over)


def multiplied(
    section: ModelSection, parameters: dict[str, Tensor], factors: Mapping[str, float]
) -> tuple[ModelSection, dict[str, Tensor]]:
    """A model with factors multiplied into its parameters, in float32; a head that was tied becomes one of its own."""
    if not factors:
        return section, parameters
    result = dict(parameters)
    shared = ("embedding.weight", "head.weight")
    if section.tie_embeddings and any(_matches(name, tuple(factors)) for name in shared):
        result["head.weight"] = parameters["embedding.weight"]
        section = replace(section, tie_embeddings=False)
    for name, tensor in result.items():
        for pattern, factor in factors.items():
            if re.fullmatch(pattern, name):
                result[name] = tensor.float() * factor
    return section, result


def _part(layout: Layout, name: str) -> str:
    """The part of the model that has a tensor: its layers, its embeddings, its head."""
    return name.removeprefix(layout.prefix).partition(".")[0]


def _parts(one: TensorMap, tensor: Tensor | None, wanted: tuple[int, ...], where: Path) -> dict[str, Tensor]:
    """The parameters that a tensor holds; where it may be missing and is, what it stands for."""
    if tensor is None:
        assert one.absent is not None
        tensor = torch.full(wanted, one.absent[0])
    if tensor.shape != wanted:
        raise BrokenInputError(
            f"{where}: tensor {one.theirs!r} has the shape {tuple(tensor.shape)}, not {wanted}", _REMEDY
        )
    if not tensor.is_floating_point():
        raise BrokenInputError(
            f"{where}: tensor {one.theirs!r} is of the type {tensor.dtype}, and a parameter is floating-point", _REMEDY
        )
    rows = tensor.T if one.transposed else tensor.flatten() if one.theirs_shape else tensor
    parts = (rows.float() + one.shift if one.shift else rows).unflatten(0, (one.groups, len(one.ours), -1))
    return {name: parts[:, place].flatten(0, 1) for place, name in enumerate(one.ours)}


def _require_layers(section: ModelSection, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse more layers than there are tensors before so many are laid out."""
    layers = max(section.num_layers, section.decoder_layers)
    if layers > len(tensors):
        raise BrokenInputError(
            f"{where} holds {len(tensors)} tensors, too few for the {layers} layers of config.json", _REMEDY
        )


def give(layout: Layout, section: ModelSection, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's parameters under a checkpoint's names."""
    theirs = {}
    for one in layout.tensors(section):
        if one.absent is not None and one.ours[0] not in parameters:
            value, shape = one.absent
            theirs[one.theirs] = torch.full(shape, value)
            continue
        parts = [parameters[name].unflatten(0, (one.groups, -1)) for name in one.ours]
        joined = torch.stack(parts, dim=1).flatten(0, 2)
        joined = joined - one.shift if one.shift else joined
        laid_out = joined.T if one.transposed else joined
        theirs[one.theirs] = laid_out.reshape(one.theirs_shape or laid_out.shape).contiguous()
    return theirs


def precision_of(tensors: Mapping[str, Tensor]) -> str:
    """What the tensors are stored in: "bfloat16", or "bfloat16 and float32"."""
    return " and ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()}))


def parameter_shapes(section: ModelSection) -> dict[str, torch.Size]:
    """The shape of every parameter of a model of this section, at no cost."""
    return {name: parameter.shape for name, parameter in weightless(section).named_parameters()}


def _their_shape(one: TensorMap, shapes: Mapping[str, torch.Size]) -> tuple[int, ...]:
    first, *rest = shapes[one.ours[0]]
    joined = (first * len(one.ours), *rest)
    return one.theirs_shape or (joined[::-1] if one.transposed else joined)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are, in whatever precision each is stored."""
    return torch.equal(*((one, other) if one.dtype == other.dtype else (one.float(), other.float())))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
