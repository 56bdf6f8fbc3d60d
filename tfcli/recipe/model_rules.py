"""Combinations of model settings that have no meaning, each refused with its reason."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.recipe.model import ModelSection

Refusal = tuple[str, str]
"""What is wrong, and the remedy."""


def check_model(model: "ModelSection") -> None:
    """Refuse the first combination that has no meaning.

    Raises:
        UsageError: names the settings with their values, the reason and the remedy.
    """
    for rules in (_heads, _scores, _positions, _embeddings, _norms, _sides):
        for problem, remedy in rules(model):
            raise UsageError(problem, remedy)


def _heads(model: "ModelSection") -> Iterator[Refusal]:
    if model.head_dim is None and model.d_model % model.num_heads:
        yield (
            f"model.d_model = {model.d_model} is not divisible by model.num_heads = {model.num_heads}",
            "choose a multiple, or set model.head_dim",
        )
    if model.num_heads % model.kv_heads:
        yield (
            f"model.num_heads = {model.num_heads} is not divisible by model.num_kv_heads = {model.kv_heads}",
            "let each key-value head serve equally many query heads",
        )


def _scores(model: "ModelSection") -> Iterator[Refusal]:
    if model.attention_score == "additive" and model.positions == "rotary":
        yield (
            "Rotary positions show in dot products, and model.attention_score = 'additive' takes none",
            "choose other model.positions, or model.attention_score = 'scaled_dot'",
        )
    if model.attention_score != "parameter_free":
        return
    if model.kv_heads != model.num_heads or model.size_per_head * model.num_heads != model.d_model:
        yield (
            "Parameter-free attention has no projections that could change a size",
            "leave model.num_kv_heads and model.head_dim out",
        )
    if model.query_key_norm:
        yield (
            "Parameter-free attention has no queries and keys of its own to normalise",
            "leave model.query_key_norm out",
        )
    if model.attention_bias or model.attention_output_bias:
        yield (
            "Parameter-free attention has no projections, and so no biases",
            "leave model.attention_bias and model.attention_output_bias out",
        )


def _positions(model: "ModelSection") -> Iterator[Refusal]:
    from tfcli.recipe.model import JOINED_TO_EMBEDDINGS

    positions = model.positions
    if positions == "rotary":
        yield from _rotation(model)
    takers = {
        "position_merge": JOINED_TO_EMBEDDINGS,
        "position_offset": JOINED_TO_EMBEDDINGS,
        "position_dim": JOINED_TO_EMBEDDINGS | {"rotary"},
        "position_layout": {"sinusoidal", "rotary"},
        "position_base": {"sinusoidal", "rotary"},
        "position_scaling": {"sinusoidal", "rotary"},
        "position_scaling_kind": {"rotary"},
        "position_trained_len": {"rotary"},
        "position_low_turns": {"rotary"},
        "position_high_turns": {"rotary"},
        "position_gain": {"rotary"},
        "position_buckets": {"t5"},
        "position_max_distance": {"t5"},
    }
    for name, who in takers.items():
        if positions not in who and _is_set(model, name):
            yield (
                f"model.{name} = {getattr(model, name)!r} says nothing about model.positions = {positions!r}",
                f"leave it out, or choose {' or '.join(sorted(who))} positions",
            )
    if model.position_dim is not None and positions != "rotary" and model.position_merge != "concat":
        yield (
            f"model.position_dim = {model.position_dim} is for concatenated positions",
            "leave it out, or set model.position_merge = 'concat'",
        )
    if model.concatenated_size >= model.d_model:
        yield (
            f"model.position_dim = {model.concatenated_size} leaves tokens nothing of model.d_model = {model.d_model}",
            "choose less",
        )
    if positions == "sinusoidal" and model.layout == "halves" and model.position_size % 2:
        yield (
            f"Half sines and half cosines need an even size, and {model.position_size} is odd",
            "choose an even one, or model.position_layout = 'interleaved'",
        )
    if positions == "t5":
        yield from _buckets(model)


def _rotation(model: "ModelSection") -> Iterator[Refusal]:
    if model.position_dim is None and model.size_per_head % 2:
        yield (
            f"Rotary positions turn pairs of dimensions, and the head size {model.size_per_head} is odd",
            "choose an even model.head_dim, or model.positions = 'sinusoidal'",
        )
    if model.turned_size % 2 or model.turned_size > model.size_per_head:
        yield (
            f"model.position_dim = {model.turned_size} of a head of {model.size_per_head} cannot be turned in pairs",
            "choose an even number of at most the head size",
        )
    kind = model.position_scaling_kind
    for name in ("position_trained_len", "position_low_turns", "position_high_turns"):
        if kind not in ("llama3", "yarn") and _is_set(model, name):
            yield (
                f"model.{name} = {getattr(model, name)!r} says nothing about model.position_scaling_kind = {kind!r}",
                "leave it out, or choose 'llama3' or 'yarn'",
            )
    low, high = model.turns
    if kind in ("llama3", "yarn") and low >= high:
        yield f"model.position_low_turns = {low:g} is not below {high:g} high ones", "choose fewer"
    if kind == "dynamic" and model.turned_size < 4:
        yield "A single pair of dimensions has no base that could grow", "choose another model.position_scaling_kind"


def _buckets(model: "ModelSection") -> Iterator[Refusal]:
    buckets = model.position_buckets
    if buckets % 2 and model.architecture != "decoder":
        yield (f"model.position_buckets = {buckets} cannot be halved between before and after", "choose an even number")
    if model.position_max_distance <= buckets // 2:
        yield (
            f"model.position_max_distance = {model.position_max_distance} lies within the {buckets // 2} distances "
            "that have a bucket each",
            f"choose more than {buckets // 2}, or fewer model.position_buckets",
        )


def _embeddings(model: "ModelSection") -> Iterator[Refusal]:
    if model.concatenated_size and model.tie_embeddings and model.head != "none":
        yield (
            f"With concatenated positions a token's embedding has {model.d_model - model.concatenated_size} numbers "
            f"and the head reads {model.d_model}, so they cannot be one matrix",
            "set model.tie_embeddings = false",
        )
    if model.token_types and model.architecture != "encoder":
        yield (
            f"model.token_types = {model.token_types} tells segments of an encoder's text apart",
            "leave it out, or choose model.architecture = 'encoder'",
        )
    if model.head == "none" and model.architecture != "encoder":
        yield (
            f"model.head = 'none' leaves a {model.architecture} without predictions to generate from",
            "choose 'linear' or 'transform'",
        )
    if model.head == "none" and (model.head_bias or model.scale_logits):
        yield "model.head = 'none' has no logits", "leave model.head_bias and model.scale_logits out"


def _norms(model: "ModelSection") -> Iterator[Refusal]:
    if model.norm_bias and (model.norm == "rmsnorm" or not model.norm_affine):
        why = "rmsnorm subtracts no mean" if model.norm == "rmsnorm" else "model.norm_affine is off"
        yield f"model.norm_bias = true adds a bias, and {why}", "leave it out"
    if model.parallel_residual and model.norm_placement == "post":
        yield (
            "With model.parallel_residual two sublayers share a sum, and model.norm_placement = 'post' norms each",
            "choose 'pre'",
        )
    if model.parallel_residual and model.architecture == "encoder-decoder":
        yield (
            "model.parallel_residual puts attention and feed-forward side by side, and a decoder's layer has "
            "cross-attention between them",
            "leave it out",
        )


def _sides(model: "ModelSection") -> Iterator[Refusal]:
    if model.architecture == "encoder-decoder":
        return
    if model.num_decoder_layers is not None:
        yield (
            f"model.num_decoder_layers = {model.num_decoder_layers} is for an encoder-decoder",
            "set model.num_layers instead",
        )
    if not model.share_embeddings:
        yield f"A {model.architecture} has one side, so model.share_embeddings says nothing", "leave it out"


def _is_set(model: Any, name: str) -> bool:
    return getattr(model, name) != next(f.default for f in fields(model) if f.name == name)
