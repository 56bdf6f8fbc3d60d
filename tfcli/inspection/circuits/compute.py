"""QK circuit and OV circuit of a head, its copying score, composition of heads; the texts that excite a neuron.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Rows are vectors: x asks by x W_Q, and where it
is attended to adds x W_V W_O. x is an embedding alone, through the norm before the layer; the last norm has no scale.
Shape legend: N vectors, V tokens that are not special, D model, H heads, Dh size of a head.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from statistics import NormalDist, mode
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.attention.choice import require_place
from tfcli.inspection.circuits import Circuit, Circuits
from tfcli.inspection.embeddings.compute import token_of
from tfcli.inspection.heads.find import Material, surface
from tfcli.inspection.interventions import heads_of, stack_of
from tfcli.inspection.passes import chosen_kinds, own_places, place_in_run, require_residuals
from tfcli.layers.attention import Span
from tfcli.layers.norms import LayerNorm
from tfcli.layers.rotary import rotate
from tfcli.models.build import build_model
from tfcli.models.head import Head
from tfcli.records.heads import HeadPlace
from tfcli.runs.load import LoadedRun

_LEVEL = 0.05  # how often random matrices have any copying head that stands out, and any two heads that compose
_MATRICES, _VECTORS = 99, 39  # that are drawn beside a copying score, and beside a token, which is first once in 40
_SHOWN, _AROUND = 6, 10  # tokens at either end of a ranking, and on either side of an example
_Place = tuple[int, int] | None
_WORD = re.compile(r"[^\W\d_]{5,}")  # a token that is likely to be a whole one


def _gained(norm: Any, x: Tensor) -> Tensor:  # the linear part of a norm, without its scale
    x = x - x.mean(-1, keepdim=True) if isinstance(norm, LayerNorm) else x
    return x if getattr(norm, "weight", None) is None else x * norm.weight


class _Attention:
    """An attention; what each token enters it as, to ask and to be read, (V, D); of norm 1, with the singular values of
    W_V W_O what its heads write, (H, ·, D), and of W_Q W_Kᵀ, W_K W_Qᵀ and W_V W_O what they read, (H, D, ·). From its
    stack a matrix leads to logits of tokens or not (`predicts`)."""

    def __init__(self, run: LoadedRun, kind: AttentionKind, layer: int) -> None:
        section, model = run.config.model, cast("Any", run.model)
        name = "cross_attention" if kind == "cross" else "attention"
        self.run, self.model, self.side, self.step = run, model, heads_of(kind, 0).side, (layer, kind == "cross")
        self.kind = kind
        self.entering, gains = list[Tensor](), list[Tensor]()
        self.stack: Any = stack_of(model, self.side)
        self.block: Any = self.stack.layers[layer]
        self.module, residual = getattr(self.block, name), getattr(self.block, f"{name}_residual")
        self.heads = [f"{kind}.{layer}.{number}" for number in range(section.num_heads)]
        self.ids = sorted(one for one in run.tokenizer.ordinary_ids if one < (section.vocab_size or 0))
        self.names, is_last = run.tokenizer.labels(self.ids), kind != "encoder_self" or run.architecture == "encoder"
        self.predicts = type(model.head) is Head and not section.labels and is_last
        said = {
            "cross" if kind == "cross" else section.positions: True,
            "post": section.norm_placement == "post",
            "normed": section.query_key_norm,
        }
        self.notes = tuple(note for note, holds in {**said, "headless": not self.predicts}.items() if holds)
        own = model.embedding if self.side == "encoder" else getattr(model, "target_embedding", model.embedding)
        asking = own, residual.norm if residual.placement == "pre" else nn.Identity()
        for embedding, norm in (asking, (model.embedding, model.encoder.final_norm) if kind == "cross" else asking):
            x = embedding.weight[self.ids] * embedding.scale
            x = x if embedding.token_types is None else x + embedding.token_types[0]
            self.entering.append(norm(embedding.norm(nn.functional.pad(x, (0, section.concatenated_size)))))
            gains.append(self.linear(partial(_gained, norm)))
        self.output = self.linear(self.module.output, self.module.widths[0]).unflatten(0, (section.num_heads, -1))
        raw = self.linear(lambda x: self.projected(x).movedim(2, 0)).movedim(0, 2)
        query, key, value, self.value = gains[0] @ raw[0], gains[1] @ raw[1], gains[1] @ raw[2], raw[2]
        short = [torch.linalg.qr(one).R for one in (query, key, value, self.output.mT)]
        parts = short[2] @ self.output, query @ short[1].mT, key @ short[0].mT, value @ short[3].mT
        self.writes, *reads = (nn.functional.normalize(one.flatten(1)).view_as(one) for one in parts)
        self.reads = dict(zip("QKV", reads, strict=True))
        fourth = {by: torch.linalg.svdvals(one).pow(4).sum(-1) for by, one in self.reads.items()}
        self.ranks = {by: torch.where(one > 0, 1 / one, 0) for by, one in fourth.items()}

    def logits(self, x: Tensor) -> Tensor:  # (N, D) → (N, V), by the linear part of the last norm
        given = _gained(self.stack.final_norm, x.to(self.model.device, self.model.dtype))
        return (self.model.head(given) - self.model.head(given * 0))[:, self.ids]

    def linear(self, function: Callable[[Tensor], Tensor], size: int = 0) -> Tensor:  # its matrix, (D or size, ·)
        eye = torch.eye(size or self.run.config.model.d_model, dtype=self.model.dtype, device=self.model.device)
        return (function(eye) - function(eye * 0)).double().cpu()

    def rows(self, by: str, of: Sequence[str], x: Tensor, function: Any, also: Sequence[int] = ()) -> Iterator[Circuit]:
        """The highest and lowest numbers, above the mean, that a function (N, D) → (N, V) has for vectors `of` names,
        beside the furthest from 0 that random vectors as long have with any token; of `also`, with the same one."""
        random = torch.randn(_VECTORS, x.shape[1], generator=torch.Generator().manual_seed(0))
        drawn = nn.functional.normalize(random).to(x)
        for name, one in zip(of, x, strict=True):
            every = function(torch.cat([one[None], drawn * one.norm()])).double().cpu()
            values, others = (every - every.mean(-1, keepdim=True)).split((1, _VECTORS))
            order, furthest = values[0].argsort(descending=True).tolist(), others.abs().amax(0).tolist()
            for at in dict.fromkeys((*also, *order[:_SHOWN], *order[-_SHOWN:])):
                value, chance = float(values[0, at]), furthest[at] if at in also else max(furthest)
                yield Circuit(by, name, self.names[at], value, chance, stands_out=abs(value) > chance)

    def projected(self, x: Tensor) -> Tensor:  # (N, D) → (3, H, N, Dh): queries, keys and values
        one = self.module
        three = [one.query(x), one.key(x), one.value(x)] if one.joined is None else one.joined(x).split(one.widths, -1)
        apart = (part.unflatten(-1, (-1, one.head_dim)).transpose(0, 1) for part in three)
        return torch.stack([part.repeat_interleave(one.num_heads // len(part), 0) for part in apart])

    def turned(self, x: Tensor, which: int) -> Tensor:  # (N, D) → (1, H, N, Dh): queries (0) or keys, at distance 0
        by_head, norm = self.projected(x)[which][None], (self.module.query_norm, self.module.key_norm)[which]
        rotation = None if self.step[1] else self.stack.positions(Span(0, 1)).rotation
        return rotate(by_head if norm is None else norm(by_head), rotation)

    def tokens(self, number: int, texts: Sequence[str]) -> Iterator[Circuit]:
        """What each text that is a token seeks and writes in a head; without texts, words of the longest embeddings."""
        keys, output = self.turned(self.entering[1], 1), self.output[number].to(self.entering[1])
        rows = [self.ids.index(token_of(self.run.tokenizer, text)) for text in dict.fromkeys(texts)]
        longest = self.model.embedding.weight[self.ids].norm(dim=-1).argsort(descending=True).tolist()
        rows = rows or sorted(longest, key=lambda row: not _WORD.fullmatch(self.names[row].strip()))[:_SHOWN]
        names = [self.names[row] for row in rows]
        asked, seen = (partial(self.rows, of=names, x=x[rows], also=rows) for x in self.entering)
        yield from asked("seeks", function=lambda x: self.module.score(self.turned(x, 0), keys)[0, number])
        if self.predicts:
            yield from seen("writes", function=lambda x: self.logits(self.projected(x)[2, number] @ output))

    def figures(self, count: int) -> Iterator[Circuit]:
        """Participation ratios of singular values; Σ λ / Σ |λ| over eigenvalues of each head's OV circuit, V × V, less
        the mean over tokens ("Copying heads"), beside random directions in its place, at _LEVEL among `count` heads."""
        size, width = min(self.output.shape[1:]), self.output.shape[-1]
        for by, n in product(("QK", "OV"), range(len(self.heads))):
            rank = float(self.ranks[by.strip("KO")][n])
            yield Circuit(by, self.heads[n], None, rank, size / (1 + 2 * size / width))
        if not self.predicts:
            return
        read, draw = self.entering[1].double().cpu(), torch.Generator().manual_seed(0)
        through = self.linear(self.logits) @ (read - read.mean(0))  # (D, D)
        frame, square = torch.linalg.qr(self.value)
        sigma = torch.linalg.svdvals(square @ self.output)
        drawn = torch.randn(2, _MATRICES, len(through), sigma.shape[1], generator=draw, dtype=torch.float64)
        left, right = torch.linalg.qr(drawn).Q
        others = sigma[:, None, :, None] * (left.mT @ through @ right)
        values = torch.linalg.eigvals(torch.cat([(square @ self.output @ through @ frame)[:, None], others], 1))
        scores = values.real.sum(-1) / values.abs().sum(-1).clamp(min=1e-30)
        for head, (own, *rest) in zip(self.heads, scores.tolist(), strict=True):
            chance, spread = float(np.mean(rest)), float(np.std(rest))
            least = max(NormalDist().inv_cdf(1 - _LEVEL / 2 / count) * spread, *(abs(one - chance) for one in rest))
            yield Circuit("copying", head, None, own, chance, spread=spread, stands_out=abs(own - chance) > least)


def _compositions(every: Sequence[_Attention]) -> Iterator[Circuit]:
    """‖W_OV W‖ / ‖W_OV‖ ‖W‖ of each earlier head and each W by which a later one reads ("Composition"), against random
    rotations R between: ‖A R B‖² has mean 1/D, and is about gamma distributed; Bonferroni's correction at half of
    the level, for its far tail is up to twice as long."""
    pairs = [(a, b) for a, b in product(every, every) if (b.step[1] if a.side != b.side else a.step < b.step)]
    feeds = [(a, b, by) for a, b in pairs for by in ("KV" if a.side != b.side else "Q" if b.step[1] else "QKV")]
    for a, b, by in feeds:
        n, shares = a.writes.shape[-1], torch.linalg.matrix_norm(a.writes[:, None] @ b.reads[by])
        p, q = 1 / a.ranks["V"][:, None], 1 / b.ranks[by]
        # By the moments of R's entries squared: of one, of two in a row or column, of two in neither.
        square = 3 * p * q + p * (1 - q) + q * (1 - p) + (1 - p) * (1 - q) * (n + 1) / max(1, n - 1)
        variance = (square / (n * (n + 2)) - 1 / n**2).clamp(min=1e-30)
        likely = torch.special.gammaincc(1 / n**2 / variance, shares.square() / n / variance)
        beyond, spread = likely * len(feeds) * likely.numel() < _LEVEL / 2, (variance * n).sqrt() / 2
        for i, j in np.ndindex(*shares.shape):
            told = float(shares[i, j]), n**-0.5, float(spread[i, j]), bool(beyond[i, j])
            yield Circuit(f"{by}-composition", a.heads[i], b.heads[j], *told)


@torch.inference_mode()
def circuits(
    run: LoadedRun, *tokens: str, head: _Place = None, neuron: _Place = None, kind: Any = None, material: Any = None
) -> Circuits:
    """All heads of a `kind`; or one `head` (layer, number) and what some tokens seek and write; or a `neuron` on a
    `Material`, as `heads.find.given` makes. A UsageError where a model has none of it, or its layers add nothing."""
    require_residuals(run.config.model)
    kinds, path, section = chosen_kinds(run, kind), str(run.directory.path), run.config.model
    layers = {one: len(stack_of(run.model, heads_of(one, 0).side).layers) for one in kinds}
    if neuron is not None:
        if not section.inner_size:
            raise UsageError("This model has attention alone (model.d_ff = 0) and no neuron", "name a head: --head L.H")
        require_place("layer", neuron[0], layers[kinds[-1]])
        require_place("neuron", neuron[1], section.inner_size)
        one, name = _Attention(run, kinds[-1], neuron[0]), f"{heads_of(kinds[-1], 0).side}.{neuron[0]}.{neuron[1]}"
        return Circuits(path, name, tuple(_of_neuron(one, name, neuron[1], material)), one.notes, material.measured_on)
    if head is not None:
        place_in_run(run, kinds[-1], HeadPlace(*head))
        one = _Attention(run, kinds[-1], head[0])
        return Circuits(path, one.heads[head[1]], tuple(one.tokens(head[1], tokens)), one.notes)
    if tokens or section.attention_score == "additive":
        problem = "Tokens are read through one head" if tokens else "Additive attention has no QK matrix"
        raise UsageError(problem, "name a head with --head LAYER.HEAD")
    every = [_Attention(run, one, layer) for one in kinds for layer in range(layers[one])]
    found = [row for one in every for row in one.figures(section.num_heads * len(every))]
    first = build_model(section, run.recipe.train.seed).to(run.device, next(run.model.parameters()).dtype).eval()
    for one in (one for one in every if one.predicts):
        begun = _Attention(replace(run, model=first), one.kind, one.step[0])
        found += [replace(row, by="untrained", chance=None) for row in begun.figures(1) if row.by == "copying"]
    return Circuits(path, section.architecture, (*found, *_compositions(every)), every[-1].notes)


def _of_neuron(of: _Attention, name: str, number: int, material: Material) -> Iterator[Circuit]:
    run, output, every, read, kept = of.run, of.block.feed_forward.output, list[float](), list[Any](), list[Tensor]()
    with output.register_forward_pre_hook(lambda module, given: kept.append(given[0][0, :, number])):
        for inputs in material.texts:
            run.model.hidden(*inputs.tensors(run.device))
            ids, values = getattr(inputs, of.side), kept.pop().tolist()
            own = own_places(run, ids)
            every += [values[at] for at in own]
            read += [(values[top := max(own, key=values.__getitem__)], top, ids, own)] if own else []
    if len(read) < 2:
        raise UsageError("A neuron is measured on two texts or more", "name some with --on")
    best = mode(ids[top] for _, top, ids, _ in read[::2])
    hits = sum(ids[top] == best for _, top, ids, _ in read[1::2])
    shares = [sum(ids[at] == best for at in own) / len(own) for *_, ids, own in read[1::2]]
    chances = reduce(np.convolve, [[1 - one, one] for one in shares], np.ones(1))  # of 0, 1, 2 … hits
    count, spread = len(shares), sum(one - one**2 for one in shares) ** 0.5 / len(shares)
    told = hits / count, sum(shares) / count, spread, bool(chances[hits:].sum() < _LEVEL)
    yield Circuit("mean", name, None, float(np.mean(every)))
    yield Circuit("positive", name, None, float(np.mean(np.array(every) > 0)))
    yield Circuit("first", name, run.tokenizer.labels([best])[0], *told)
    for value, top, ids, _ in sorted(read, key=lambda one: -one[0])[:_SHOWN]:
        text, spans = surface(run.tokenizer, ids)
        begin, (start, stop), end = spans[max(0, top - _AROUND)][0], spans[top], spans[: top + _AROUND + 1][-1][1]
        yield Circuit("active", name, f"{text[begin:start]}[{text[start:stop]}]{text[stop:end]}", value)
    if of.predicts:
        yield from of.rows("writes", [name], of.linear(output, of.model.section.inner_size)[number, None], of.logits)
