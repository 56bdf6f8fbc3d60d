"""Equivalent models: one is written as another of the same function, since families differ in what they can say.

A rewriting maps a section and its parameters to others with the same logits, or to None where it does not apply.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection

Parameters = Mapping[str, Tensor]
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


def sort_sinusoids(section: ModelSection, parameters: Parameters) -> Written | None:
    """All sines before all cosines: the dimensions of the residual stream change their order, and with them the rows
    and columns of every parameter that writes to it or reads from it. Norms do not see the order."""
    added = section.positions == "sinusoidal" and section.position_merge == "add"
    if not added or section.layout != "interleaved" or section.d_model % 2:
        return None
    if section.attention_score == "parameter_free":
        return None  # its heads are cut from the residual stream itself
    even = torch.arange(0, section.d_model, 2)
    order = torch.cat((even, even + 1))
    sorted_ = {name: _sorted(name, tensor, order) for name, tensor in parameters.items()}
    return replace(section, position_layout="halves"), sorted_


def write_out_positions(section: ModelSection, parameters: Parameters) -> Written | None:
    """Sines and cosines that are added, or no positions at all, as a table that could have been learned."""
    is_none = section.positions == "none"
    if not is_none and (section.positions != "sinusoidal" or section.position_merge != "add"):
        return None
    if section.architecture == "encoder-decoder":
        return None
    length, size = section.max_seq_len, section.d_model
    table = sinusoidal_encoding(
        length,
        size,
        section.position_base,
        layout=section.layout,
        offset=section.position_offset,
        scaling=section.position_scaling,
    )
    learned = replace(
        section,
        positions="learned",
        position_merge="add",
        position_layout=None,
        position_offset=0,
        position_scaling=1.0,
        scale_embeddings=section.embedding_scale != 1,
    )
    table = (table * (not is_none)).to(parameters["embedding.weight"])
    return learned, {**parameters, "embedding.positions": table}


def fold_score_scale(section: ModelSection, parameters: Parameters) -> Written | None:
    """1/√Dh is multiplied into the queries, whose dot products with the keys are then the scores."""
    if section.attention_score != "scaled_dot" or section.query_key_norm:
        return None
    scale = section.size_per_head**-0.5
    folded = {name: tensor * scale for name, tensor in parameters.items() if "attention.query." in name}
    return replace(section, attention_score="dot"), {**parameters, **folded}


_REWRITINGS: tuple[Rewriting, ...] = (
    fold_scale,
    zero_output_biases,
    sort_sinusoids,
    write_out_positions,
    fold_score_scale,
)

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
