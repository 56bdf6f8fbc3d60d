"""Attention checks: fused attention and row attention against the formula, and weights that sum to one.
Shape legend: B rows, H heads, T queries, S keys."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.transformer import AttentionWeights, Transformer
from tfcli.verification.cache import CHUNKED, chunks, in_pieces
from tfcli.verification.check import Finding, ModelInputs, Skipped, VerifiedRun, at_most, leaves, mixed, predict, proof


@proof("fused attention")
@torch.inference_mode()
def fused_attention(subject: VerifiedRun) -> Iterator[Finding]:
    """The fast kernel gives, in every layer, what softmax(QKᵀ/√Dh)V gives line by line."""
    _require_kernel(subject)
    for read in _readings(subject):
        fused, explicit = _outputs(subject.model, read, None), _outputs(subject.model, read, {})
        for (name, ours), (_, theirs) in zip(fused, explicit, strict=True):
            yield subject.alike(ours, theirs, f"{name}, {_size(read)}")


@proof("row attention")
def row_attention(subject: VerifiedRun) -> Iterator[Finding]:
    """The attention of training a row at a time gives the values and the gradients of the formula."""
    _require_kernel(subject)
    if subject.run.config.model.positions == "t5":
        raise Skipped("a learned bias needs a gradient, and training a row at a time has none for it")
    for read in _readings(subject):
        formula = _with_gradients(subject.model, read, {})
        with _in_rows(subject.model):
            rows = _with_gradients(subject.model, read, None)
        for name, ours in rows.items():
            yield subject.alike(ours, formula[name], f"{name}, {_size(read)}")


@proof("attention sums to one")
@torch.inference_mode()
def attention_sums(subject: VerifiedRun) -> Iterator[Finding]:
    """Every row of attention weights sums to 1, and none is below 0."""
    # A query that may attend to nothing, in the padding, has zeros.
    for weights, allowed, where in _all_weights(subject):
        lost = (weights.sum(-1) - allowed.any(-1).to(weights.dtype)).abs().max()
        yield at_most(float(torch.maximum(lost, (-weights).clamp(min=0).max())), subject.limit, "from 1", where)


@proof("masked weights")
@torch.inference_mode()
def masked_weights(subject: VerifiedRun) -> Iterator[Finding]:
    """What a query may not attend to — the future, padding, outside the window — has the weight 0."""
    # Who may attend to whom is worked out here from the positions, not taken from the product's masks.
    for weights, allowed, where in _all_weights(subject):
        yield at_most(float(weights.masked_fill(allowed, 0.0).abs().max()), 0.0, "weight", where)


def _readings(subject: VerifiedRun) -> Iterator[ModelInputs]:
    for length in subject.lengths:
        if subject.run.architecture != "encoder-decoder":
            yield subject.reading(length)
        yield subject.padded_reading(length)


def _outputs(model: Transformer, read: ModelInputs, weights: AttentionWeights | None) -> list[tuple[str, Tensor]]:
    """What every attention gives at real tokens, and the logits there."""
    found: list[tuple[str, Tensor]] = []

    def keep(name: str, _part: nn.Module, _inputs: Any, output: Tensor) -> None:
        found.append((name, read.at_text(output, of_source=name.startswith("encoder."))))

    with ExitStack() as hooks:
        for name, part in model.named_modules():
            if isinstance(part, MultiHeadAttention):
                hooks.callback(part.register_forward_hook(partial(keep, name)).remove)
        logits = predict(model, read, weights)
    return [*found, ("the logits", read.at_text(logits))]


def _with_gradients(model: Transformer, read: ModelInputs, weights: AttentionWeights | None) -> dict[str, Tensor]:
    """The logits, and the gradient of a mixture of them for every vector that enters a stack."""
    with leaves(model) as entering:
        logits = read.at_text(predict(model, read, weights))
        gradients = torch.autograd.grad(mixed(logits), list(entering.values()))
    named = {f"the gradient for the {side}": gradient for side, gradient in zip(entering, gradients, strict=True)}
    return {"the logits": logits.detach(), **named}


@contextmanager
def _in_rows(model: Transformer) -> Iterator[None]:
    """Attention as training has it a row at a time; the rest of the model stays in evaluation."""
    parts = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    rates = [part.dropout for part in parts]
    model.use_in_training("rows")
    for part in parts:
        part.training, part.dropout = True, 0.0
    try:
        yield
    finally:
        model.use_in_training("fused")
        for part, rate in zip(parts, rates, strict=True):
            part.training, part.dropout = False, rate


def _require_kernel(subject: VerifiedRun) -> None:
    section = subject.run.config.model
    is_additive = section.attention_score == "additive"
    if is_additive or section.attention_softcap is not None:
        which = "additive scores" if is_additive else "scores within a cap"
        raise Skipped(f"{which} have no fast kernel: the formula is the only way")


_Weights = Iterator[tuple[Tensor, Tensor, str]]


def _all_weights(subject: VerifiedRun) -> _Weights:
    """Every layer's weights of every pass, (B, H, T, S), who may attend to whom, (B, 1, T, S), and where."""
    for read in _readings(subject):
        weights: AttentionWeights = {}
        predict(subject.model, read, weights)
        yield from _layers(subject, weights, read.mask, _size(read))
    if subject.run.architecture == "encoder":
        return
    for length in subject.lengths[1:]:
        read = subject.reading(length)
        for _, weights in in_pieces(subject.model, read, chunks(length), explicit=True):
            yield from _layers(subject, weights, read.mask, f"{_size(read)}, {CHUNKED}")


def _layers(subject: VerifiedRun, weights: AttentionWeights, mask: Tensor | None, where: str) -> _Weights:
    """Queries are the last of the keys' positions. `mask` is of the source where there is one."""
    window = subject.run.config.model.sliding_window
    for kind, layers in weights.items():
        for layer, found in enumerate(layers):
            queries, keys = found.shape[2:]
            places = torch.arange(keys, device=found.device)
            ahead = places - places[keys - queries :, None]
            allowed = ahead <= 0 if kind == "decoder_self" else torch.ones_like(ahead, dtype=torch.bool)
            if window is not None and kind != "cross":
                allowed = allowed & (ahead.abs() < window)
            if mask is not None and not (subject.run.architecture == "encoder-decoder" and kind == "decoder_self"):
                allowed = allowed & mask[:, None, None, :]
            yield found, allowed.expand(found.shape[0], 1, queries, keys), f"{kind}, layer {layer}, {where}"


def _size(read: ModelInputs) -> str:
    return f"texts of {read.tokens.shape[1]} tokens{'' if read.mask is None else ', padded'}"
