"""Tensors of a checkpoint as parameters of a model, and back: names, shapes, transposed and joined matrices. A
rewriting maps a section and its parameters to others with the same logits, or to None where it does not apply."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, shortened
from tfcli.interop.families.layout import CheckpointFamily, TensorMap
from tfcli.layers.positions import sinusoids
from tfcli.models.build import meta_model
from tfcli.recipe.model import ModelSection

Parameters = Mapping[str, Tensor]
_REMEDY = "the file is damaged, or config.json belongs to another checkpoint"


def canonical_names(layout: CheckpointFamily, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by today's names, with a language-model head: old endings renamed, base models' prefix added."""

    def of_today(name: str) -> str:
        for old, new in layout.renames.items():
            if name.endswith(old) and name.removesuffix(old) + new not in tensors:  # else it is refused as left over
                return name.removesuffix(old) + new
        return name

    renamed = {of_today(name): tensor for name, tensor in tensors.items()}
    prefix = "" if any(name.startswith(layout.prefix) for name in renamed) else layout.prefix
    return {prefix + name: tensor for name, tensor in renamed.items()}


def settled_section(
    layout: CheckpointFamily,
    section: ModelSection,
    tensors: Mapping[str, Tensor],
    names: Collection[str] = (),
) -> ModelSection:
    """The section with what config.json leaves to the tensors: whether there is a head, and whether it is tied.

    Args:
        layout: The family.
        section: What config.json says.
        tensors: The tensors by their canonical names.
        names: Their names in the file; empty: the same.
    """
    if _is_headless(layout, section, tensors, names):
        section = replace(section, head="none", head_bias=False, tie_embeddings=True)
    if layout.tied_by_tensors:
        head, embedding = (tensors.get(name) for name in layout.head)
        section = replace(section, tie_embeddings=head is None or (embedding is not None and _equal(head, embedding)))
    return layout.settle(section, tensors)


def _is_headless(
    layout: CheckpointFamily,
    section: ModelSection,
    tensors: Mapping[str, Tensor],
    names: Collection[str],
) -> bool:
    """Whether the tensors are those of a base model, which predicts no tokens.

    A head that shares the embedding matrix needs no tensor of its own, so its absence says nothing.
    Files of a base model leave its prefix out, and files with a head for another task have tensors
    outside of it. Any other file without the head's matrix has lost it.
    """
    if layout.headless is not None:
        return not any(name.startswith(layout.headless) for name in tensors)
    if section.tie_embeddings or layout.tied_by_tensors or layout.head[0] in tensors:
        return False
    if section.architecture == "encoder-decoder":
        return False
    has_other_head = any(not name.startswith(layout.prefix) for name in tensors)
    return has_other_head or not _has_prefix(layout, names)


def _has_prefix(layout: CheckpointFamily, names: Collection[str]) -> bool:
    """Whether the names in a file have the prefix of the base model; no names: the canonical ones, which do."""
    return not names or any(name.startswith(layout.prefix) for name in names)


def parameters_of_checkpoint(
    layout: CheckpointFamily, section: ModelSection, tensors: Parameters, where: Path, names: Collection[str] = ()
) -> tuple[dict[str, Tensor], list[str]]:
    """A checkpoint's tensors, under canonical names, as the parameters of a model of this section, and the names of
    those that were left over. `names`: as the file has them; empty: the same. A BrokenInputError where one is missing,
    or contradicts the one it repeats, or a part of the model has one more."""
    layers = max(section.num_layers, section.decoder_layers)
    if layers > len(tensors):  # before so many are laid out
        found = f"{len(tensors)} tensors, too few for the {layers} layers of config.json"
        raise BrokenInputError(f"{where} holds {found}", _REMEDY)
    shapes = {name: parameter.shape for name, parameter in meta_model(section).named_parameters()}
    parameters: dict[str, Tensor] = {}
    left = dict(tensors)
    maps = layout.tensors(section, shapes)
    for one in maps:
        if one.theirs not in left and not one.optional:
            raise BrokenInputError(f"{where} lacks the tensor {one.theirs!r}", _REMEDY)
        parameters |= _parts(one, left.pop(one.theirs, None), shapes[one.ours[0]], where)
    for name, original in layout.copies(section).items():
        if name in left and not _equal(left.pop(name), tensors[original]):
            raise BrokenInputError(f"{where}: tensor {name!r} is not {original!r}, as config.json says", _REMEDY)

    known_names = [*(one.theirs for one in maps), *layout.copies(section)]
    has_prefix = _has_prefix(layout, names)
    left_over = []
    for name in sorted(name for name in left if not _matches(name, layout.constants)):
        in_file = name if not names or name in names else name.removeprefix(layout.prefix)
        is_head_of_task = _matches(name, layout.heads)
        if _is_within(name, layout, known_names, has_prefix) and not is_head_of_task:
            problem = f"{where} has a tensor {shortened(repr(in_file))} that a {layout.name} model does not"
            raise BrokenInputError(problem, _REMEDY)
        left_over.append(in_file)
    return parameters, left_over


def _is_within(name: str, layout: CheckpointFamily, known_names: Iterable[str], has_prefix: bool) -> bool:
    """Whether a tensor that the model does not need has its place inside the model.

    Heads for other tasks are modules of their own: "classifier.weight" is outside of a BERT, and so
    is "cls.species.weight", because BERT's own head is "cls.predictions".

    Args:
        name: The tensor's canonical name.
        layout: The family.
        known_names: Canonical names of the tensors that the model has.
        has_prefix: Whether the file's own names have the prefix of the base model. If so, all
            that has it is inside; if not, only what lies in a module that the model has.
    """
    if name.startswith(layout.prefix):
        if layout.prefix and has_prefix:
            return True
        modules = {_first_module(known.removeprefix(layout.prefix)) for known in known_names}
        return _first_module(name.removeprefix(layout.prefix)) in modules
    if layout.headless is not None:
        return name.startswith(layout.headless)
    modules = {_first_module(known) for known in known_names if not known.startswith(layout.prefix)}
    return _first_module(name) in modules


def _first_module(name: str) -> str:
    """The outermost module in a tensor's name: "encoder" of "encoder.layer.0.output"."""
    return name.partition(".")[0]


def multiplied(
    section: ModelSection, parameters: dict[str, Tensor], factors: Mapping[str, float]
) -> tuple[ModelSection, dict[str, Tensor]]:
    """A model with factors multiplied into its parameters, in float32; a head that was tied becomes one of its own."""
    if not factors:
        return section, parameters
    result, shared = dict(parameters), ("embedding.weight", "head.weight")
    if section.tie_embeddings and any(_matches(name, factors) for name in shared):
        result["head.weight"] = parameters["embedding.weight"]
        section = replace(section, tie_embeddings=False)
    for (name, tensor), (pattern, factor) in product(result.items(), factors.items()):
        if re.fullmatch(pattern, name):
            result[name] = tensor.float() * factor
    return section, result


def _parts(one: TensorMap, tensor: Tensor | None, shape: torch.Size, where: Path) -> dict[str, Tensor]:
    """The parameters of this shape that a tensor holds; zeros where it may be missing and is."""
    joined = (shape[0] * len(one.ours), *shape[1:])
    wanted = one.theirs_shape or (joined[::-1] if one.transposed else joined)
    tensor = torch.zeros(wanted) if tensor is None else tensor
    name = f"{where}: tensor {one.theirs!r}"
    if tensor.shape != wanted:
        raise BrokenInputError(f"{name} has the shape {tuple(tensor.shape)}, not {wanted}", _REMEDY)
    if not tensor.is_floating_point():
        raise BrokenInputError(f"{name} is of the type {tensor.dtype}, and a parameter is floating-point", _REMEDY)
    rows = tensor.T if one.transposed else tensor.flatten() if one.theirs_shape else tensor
    parts = (rows.float() + one.shift if one.shift else rows).unflatten(0, (one.groups, len(one.ours), -1))
    return {name: parts[:, place].flatten(0, 1) for place, name in enumerate(one.ours)}


def checkpoint_of_parameters(layout: CheckpointFamily, section: ModelSection, parameters: Parameters) -> Parameters:
    """A model's parameters under a checkpoint's names; gains of ones and biases of zeros where the model has none.

    A model without a head is written as its family's base class, without the prefix.
    """
    usual = {
        name: torch.full(parameter.shape, float(name.endswith("norm.weight")))
        for name, parameter in meta_model(layout.whole(section)).named_parameters()
        if name not in parameters
    }
    whole, theirs = usual | dict(parameters), {}
    for one in layout.tensors(section, whole):
        joined = torch.stack([whole[name].unflatten(0, (one.groups, -1)) for name in one.ours], dim=1).flatten(0, 2)
        joined = joined - one.shift if one.shift else joined
        laid_out = joined.T if one.transposed else joined
        name = one.theirs.removeprefix(layout.prefix) if section.head == "none" else one.theirs
        theirs[name] = laid_out.reshape(one.theirs_shape or laid_out.shape).contiguous()
    return theirs


def precision_of(tensors: Mapping[str, Tensor]) -> str:
    """What the tensors are stored in: "bfloat16", or "bfloat16 and float32"."""
    return " and ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()}))


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are, in whatever precision each is stored."""
    return torch.equal(*((one, other) if one.dtype == other.dtype else (one.float(), other.float())))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


Written = tuple[ModelSection, Parameters]
Rewriting = Callable[[ModelSection, Parameters], Written | None]


def same_functions(section: ModelSection, parameters: Parameters) -> Iterator[Written]:
    """The model as it is, and then written otherwise: in one respect, in two, and so on."""
    for number in range(len(_REWRITINGS) + 1):
        for chosen in combinations(_REWRITINGS, number):
            written: Written | None = (section, parameters)
            for rewriting in chosen:
                written = rewriting(*written) if written is not None else None
            if written is not None:
                yield written


def fold_scale(section: ModelSection, parameters: Parameters) -> Written | None:
    """√d_model is multiplied into the embedding matrices, and the head gets the matrix as it was. An encoder-decoder's
    head goes on sharing it, and divides what it reads by √d_model, as T5's does."""
    scale = section.embedding_scale
    if scale == 1.0:
        return None
    folded = {name: parameters[name] * scale for name in _EMBEDDINGS if name in parameters}
    if section.architecture != "encoder-decoder":
        kept = {"head.weight": parameters["embedding.weight"]}
        return replace(section, scale_embeddings=False, tie_embeddings=False), {**kept, **parameters, **folded}
    if section.tie_embeddings and section.scale_logits:
        return None
    scaled = section.scale_logits or section.tie_embeddings
    return replace(section, scale_embeddings=False, scale_logits=scaled), {**parameters, **folded}


def zero_output_biases(section: ModelSection, parameters: Parameters) -> Written | None:
    """Where queries, keys and values have biases and the output has none, it gets zeros."""
    if not section.attention_bias or section.has_output_bias:
        return None
    outputs = [name for name in parameters if name.endswith("attention.output.weight")]
    zeros = {name.replace("weight", "bias"): torch.zeros(len(parameters[name])) for name in outputs}
    return replace(section, attention_output_bias=True), {**parameters, **zeros}


def _adds_sinusoids(section: ModelSection) -> bool:
    return section.positions == "sinusoidal" and section.position_merge == "add"


def sort_sinusoids(section: ModelSection, parameters: Parameters) -> Written | None:
    """All sines before all cosines: the dimensions of the residual stream change their order, and with them the rows
    and columns of every parameter that writes to it or reads from it. Norms do not see the order."""
    is_cut = section.attention_score == "parameter_free"  # its heads are cut from the residual stream itself
    if is_cut or not _adds_sinusoids(section) or section.layout != "interleaved" or section.d_model % 2:
        return None
    order = torch.arange(section.d_model).unflatten(0, (-1, 2)).T.flatten()
    sorted_ = {name: _sorted(name, tensor, order) for name, tensor in parameters.items()}
    return replace(section, position_layout="halves"), sorted_


def write_out_positions(section: ModelSection, parameters: Parameters) -> Written | None:
    """Sines and cosines that are added, or no positions at all, as a table that could have been learned."""
    is_none = section.positions == "none"
    if section.architecture == "encoder-decoder" or not (is_none or _adds_sinusoids(section)):
        return None
    table = sinusoids(section, section.max_seq_len)[section.position_offset :] * (not is_none)
    usual: dict[str, Any] = {"position_merge": "add", "position_layout": None, "position_offset": 0}
    scales: dict[str, Any] = {"position_scaling": 1.0, "scale_embeddings": section.embedding_scale != 1}
    learned = replace(section, positions="learned", **usual, **scales)
    return learned, {**parameters, "embedding.positions": table.to(parameters["embedding.weight"])}


def fold_score_scale(section: ModelSection, parameters: Parameters) -> Written | None:
    """1/√Dh is multiplied into the queries, whose dot products with the keys are then the scores."""
    if section.attention_score != "scaled_dot" or section.query_key_norm:
        return None
    scale = section.size_per_head**-0.5
    folded = {name: tensor * scale for name, tensor in parameters.items() if "attention.query." in name}
    return replace(section, attention_score="dot"), {**parameters, **folded}


_REWRITINGS = (fold_scale, zero_output_biases, sort_sinusoids, write_out_positions, fold_score_scale)
_EMBEDDINGS = ("embedding.weight", "target_embedding.weight")
_INSIDE = ("attention.query", "attention.key", "attention.value", "feed_forward.up", "feed_forward.gate")
_HEAD_WIDE = ("query_norm", "key_norm", "score.weight", "head.bias")


def _sorted(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """The parameter with the dimensions of the residual stream in another order."""
    if any(part in name for part in _HEAD_WIDE):
        return tensor
    if any(part in name for part in _INSIDE):  # from the residual stream to the inside of a sublayer
        return tensor[:, order] if tensor.ndim == 2 else tensor
    if "transform.weight" in name:
        return tensor[order][:, order]
    if "output.weight" in name:  # and back to it
        return tensor[order]
    return tensor[..., order]  # embeddings, head, and what is added to the residual stream or scales it
