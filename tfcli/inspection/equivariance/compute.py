"""Permutation equivariance: orders of a text, one token changed, and norms across tokens, each as a measurement."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfcli.errors import UsageError
from tfcli.inspection import equivariance as records
from tfcli.inspection.passes import Tower, tower
from tfcli.layers.attention import Span
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.norms import LayerNorm, RMSNorm
from tfcli.layers.positions import AlibiPositions, QueryKeyPositions, RotaryPositions
from tfcli.layers.relative_bias import RelativeBias
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.arrays import frozen

_SMALLEST = 1e-12


def movement(before: Tensor, after: Tensor) -> Tensor:
    """The length of each row's change by that of the row. Shape: (…, D) twice → (…)."""
    return (after - before).norm(dim=-1) / before.norm(dim=-1).clamp(min=_SMALLEST)


def root_mean_square(x: Tensor) -> float:
    """The size of a number of `x`."""
    return float(x.float().square().mean().sqrt().clamp(min=_SMALLEST))


def across_tokens(x: Tensor, eps: float, *, centred: bool = True) -> Tensor:
    """Every dimension less its mean over the tokens, divided by √(its variance over them + ε); if not `centred`, the
    mean stays, and the mean square stands for the variance, as in RMSNorm. Shape: (…, T, D) → (…, T, D)."""
    x = x - x.mean(dim=-2, keepdim=True) if centred else x
    return x * torch.rsqrt(x.square().mean(dim=-2, keepdim=True) + eps)


class NormAcrossTokens(nn.Module):
    """A norm with its ε, its gain and its bias, whose statistics are those across tokens."""

    def __init__(self, norm: LayerNorm | RMSNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        x = across_tokens(x, self.norm.eps, centred=isinstance(self.norm, LayerNorm))
        weight, bias = self.norm.weight, getattr(self.norm, "bias", None)
        return (x if weight is None else x * weight) + (0.0 if bias is None else bias)


def altered(one: Tower, *, positions: bool, masked: bool) -> AbstractContextManager[None]:
    """With or without what tells positions, of which a window is one, for it hides by distance, and the causal mask."""
    changes: list[tuple[nn.Module, str, Any]] = [(attention, "causal", masked) for attention in one.attentions()]
    if not positions:
        changes += [(attention, "window", None) for attention in one.attentions()]
        for module in [one.embedding, *one.stack.modules()]:
            if isinstance(module, RotaryPositions):
                changes.append((module, "cosines", torch.ones_like(module.cosines)))
            if (name := _TABLES.get(type(module))) and (name != "positions" or one.embedding.has_positions):
                changes.append((module, name, torch.zeros_like(getattr(module, name))))
    return _set(changes)


# The table by which a module tells positions; zeros say nothing.
_TABLES = {TokenEmbedding: "positions", QueryKeyPositions: "table", RotaryPositions: "sines"}
_TABLES |= {AlibiPositions: "slopes", RelativeBias: "weight"}


def norms_across_tokens(one: Tower) -> AbstractContextManager[None]:
    """Every norm of vectors, but of queries and keys, takes its statistics over the text's tokens (UDL's lecture)."""
    return _set(
        (parent, name, NormAcrossTokens(child))
        for parent in [*one.embedding.modules(), *one.stack.modules()]
        for name, child in parent.named_children()
        if isinstance(child, LayerNorm | RMSNorm) and not isinstance(parent, MultiHeadAttention)
    )


@contextmanager
def _set(changes: Iterable[tuple[nn.Module, str, Any]]) -> Iterator[None]:
    """Other attributes of modules for a while."""
    both = [(module, name, getattr(module, name), value) for module, name, value in changes]
    try:
        for module, name, old, value in both:
            setattr(module, name, nn.Parameter(value, False) if isinstance(old, nn.Parameter) else value)
        yield
    finally:
        for module, name, old, _ in both:
            setattr(module, name, old)


Read = tuple[tuple[int, ...], tuple[str, ...]]  # a text's ids and their labels


def model_of_words(section: ModelSection, texts: Sequence[str], seed: int) -> tuple[Transformer, list[Read]]:
    """A model whose vocabulary is the words of the texts, and the texts; a UsageError where one is too long for it."""
    words = [tuple(text.split()) for text in texts]
    if (longest := max(map(len, words))) > (most := section.max_seq_len):
        raise UsageError(f"The text has {longest} words and the context holds {most}", "shorten the text")
    known = [*dict.fromkeys(chain(*words))]
    model = build_model(replace(section, vocab_size=max(len(known), 1)), seed).eval()
    return model, [(tuple(map(known.index, text)), text) for text in words]


@torch.inference_mode()
def equivariance(
    model: Transformer, ids: Sequence[int], tokens: Sequence[str], name: str, *, permutations: int = 10, seed: int = 0
) -> records.EquivarianceRecord:
    """How far f(P x) lies from P f(x), f the stack that reads a text, of each variant; and how far a changed last token
    moves rows before it, masked, by what norms take statistics over. A UsageError where there is no order to change."""
    if len(set(ids)) < 2:
        raise UsageError("A text of one kind of token has no order to change", "give one with two different tokens")
    one, x = tower(model), torch.tensor([list(ids)], device=model.device)
    generator, draws = torch.Generator().manual_seed(seed), list[Tensor]()
    while len(draws) < permutations:  # orders in which the text reads otherwise
        order = torch.randperm(len(ids), generator=generator).to(x.device)
        if not torch.equal(x[0, order], x[0]):
            draws.append(order)
    section, deviations = model.section, tuple(_deviation(one, x, draws, variant) for variant in variants(model))
    about = name, section.architecture, section.positions, section.sliding_window, tuple(tokens), permutations
    return records.EquivarianceRecord(*about, deviations, len(ids) - 1, tuple(_leaks(one, x)))


def variants(model: Transformer) -> tuple[records.Variant, ...]:
    """With positions and without, masked and not; a model that nothing tells positions has two. A window tells them."""
    section = model.section
    own = section.positions != "none" or section.sliding_window is not None, tower(model).masked
    told = (False, True) if own[0] else (False,)
    return tuple(records.Variant(p, m, (p, m) == own) for m in (False, True) for p in told)


def _deviation(one: Tower, x: Tensor, draws: list[Tensor], variant: records.Variant) -> records.Deviation:
    with altered(one, positions=variant.positions, masked=variant.masked):
        straight = one.hidden(x)
        largest = max(float((one.hidden(x[:, order]) - straight[order]).abs().max()) for order in draws)
    relative = largest / root_mean_square(straight)
    return records.Deviation(variant, largest, relative, relative < records.EQUAL)


def _leaks(one: Tower, x: Tensor) -> Iterator[records.NormLeak]:
    """How far the rows before the last token move when it changes, by what the norms take their statistics over."""
    other = x.clone()
    other[0, -1] = x[0][x[0] != x[0, -1]][0]
    for statistics, norms in (("each token", nullcontext()), ("across tokens", norms_across_tokens(one))):
        with altered(one, positions=True, masked=True), norms:
            rows, moved = (one.hidden(ids)[:-1] for ids in (x, other))
        largest = float((moved - rows).abs().max())
        relative = largest / root_mean_square(rows)
        yield records.NormLeak(statistics, largest, relative, relative >= records.EQUAL)  # type: ignore[arg-type]


@torch.inference_mode()
def perturbation(
    model: Transformer, ids: Sequence[int], tokens: Sequence[str], name: str, changed: int, *, seed: int = 0
) -> records.PerturbationRecord:
    """Change one token's vector by a random one of its length, and follow it through the halves of the layers."""
    if model.section.parallel_residual:
        problem = "With model.parallel_residual = true a layer has no halves, one after the other"
        raise UsageError(problem, "leave --perturb out, or name another run")
    if not 0 <= changed < len(ids):
        raise UsageError(f"The text has no token {changed}", f"choose 0 to {len(ids) - 1}")
    one = tower(model)
    x = one.embedding(torch.tensor([list(ids)], device=model.device))
    push = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed)).to(x)
    before, after = x, _pushed(x, changed, push)
    columns, halves = [movement(before, after)[0]], []
    for layer, half, function in layer_halves(one, len(ids)):
        alone = movement(function(before), function(_pushed(before, changed, push)))[0] > records.EQUAL
        rows = int(alone.sum())
        halves.append(records.Half(layer, half, rows, rows > int(alone[changed])))  # type: ignore[arg-type]
        before, after = function(before), function(after)
        columns.append(movement(before, after)[0])
    about = name, tuple(tokens), changed, one.masked, model.section.sliding_window
    return records.PerturbationRecord(*about, frozen(torch.stack(columns, dim=1).float().cpu()), tuple(halves))


def layer_halves(one: Tower, length: int) -> Iterator[tuple[int, str, Callable[[Tensor], Tensor]]]:
    """Each layer's attention, then its feed-forward, as the layer itself runs them: functions (1, T, D) → (1, T, D)."""
    positions = one.stack.positions(Span(0, length))
    for number, layer in enumerate(one.stack.layers):
        assert isinstance(layer, TransformerLayer)
        attention = partial(layer.attention, positions=positions)
        yield number, "attention", partial(layer.attention_residual, sublayer=attention)
        yield number, "feed_forward", partial(layer.feed_forward_residual, sublayer=layer.feed_forward)


def _pushed(x: Tensor, row: int, push: Tensor) -> Tensor:
    """`x` of (1, T, D) with `push` of (D,), made as long as the row, added to one row."""
    pushed = x.clone()
    pushed[0, row] += push / push.norm() * x[0, row].norm().clamp(min=1e-6)
    return pushed


@torch.inference_mode()
def order(model: Transformer, first: Read, second: Read, name: str) -> records.OrderRecord:
    """Each token's output in one text beside that in the other, of each variant; a UsageError for other tokens."""
    for which, (ids, labels), (others, _) in (("first", first, second), ("second", second, first)):
        more = Counter(ids) - Counter(others)
        if extra := [label for token, label in zip(ids, labels, strict=True) if more[token]]:
            problem = f"The {which} text has the token {extra[0]!r} more often than the other"
            raise UsageError(problem, "give two texts of the same tokens in another order")
    one, chosen, places = tower(model), variants(model), matched(first[0], second[0])
    texts = [torch.tensor([list(ids)], device=model.device) for ids, _ in (first, second)]
    moved, sentence = [], []
    for variant in chosen:
        with altered(one, positions=variant.positions, masked=variant.masked):
            ours, theirs = (one.hidden(ids) for ids in texts)
        moved.append(movement(ours, theirs[torch.from_numpy(places[:, 1]).to(theirs.device)]))
        sentence.append(movement(ours.mean(dim=0), theirs.mean(dim=0)))
    numbers = frozen(places, np.int64), frozen(torch.stack(moved, dim=1).cpu()), frozen(torch.stack(sentence).cpu())
    return records.OrderRecord(name, first[1], second[1], chosen, *numbers)


def matched(first: Sequence[int], second: Sequence[int]) -> NDArray[np.int64]:
    """Where each token of the first text stands in both; equal ones in their order. Shape: (T, 2).

    >>> matched([7, 8, 7], [7, 7, 8]).tolist()
    [[0, 0], [1, 2], [2, 1]]
    """
    here, there = (np.argsort(ids, kind="stable") for ids in (first, second))
    return np.stack((np.arange(len(here)), there[np.argsort(here)]), axis=1)
