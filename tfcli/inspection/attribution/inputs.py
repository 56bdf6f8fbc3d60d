"""Input attribution: gradient × input, integrated gradients, occlusion, attention rollout, value-weighted attention.
Each gives every token that is read one number. F, which is explained, is log p(token), or a difference of two logits. A
text between the one that is read and its baseline is a mix m, a number a token, with the embeddings X′ + m ⊙ (X − X′).
Shape legend: N tokens read, n of them replaced, K mixes, D model, T queries, S keys, P points, M methods, R orders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from tfcli.errors import UsageError
from tfcli.inspection import interventions
from tfcli.inspection.attribution import CHANCE, InputAttribution, InputMethod
from tfcli.inspection.attribution.compute import divide
from tfcli.inspection.passes import AttentionPass, record_model
from tfcli.inspection.predictions.compute import ask
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.transformer import Transformer
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun

Array = NDArray[np.float64]
STEPS, GAP = (64, 128, 256, 512, 1024), 0.01  # of integrated gradients
_AT_A_TIME, _ORDERS, _POINTS, _ROUNDING = 2048, 100, 16, 1e-5  # tokens; random; of a curve; what float32 cannot tell
_AS_GOOD = int(CHANCE * (1 + _ORDERS)) - 1  # random orders that do as well as one that is better than chance, at most


@dataclass(frozen=True, eq=False)
class Mixtures:
    """F of texts between the one that is read, with the embeddings x, (N, D), in sides of these `lengths`, and its
    baseline, (N, D). `explained` says what F is, from the logits at a position: (K, Vocab) → (K,)."""

    model: Transformer
    lengths: list[int]
    x: Tensor
    baseline: Tensor
    position: int
    explained: Callable[[Tensor], Tensor]

    def __call__(self, mixes: Tensor, *, slopes: bool = False, baseline: Tensor | None = None) -> Array:
        """F of every mix, or ∂F/∂m (`slopes`), with this baseline or another. Shape: (K, N) → (K,) or (K, N)."""
        names = [f"{name}.weight" for name, one in self.model.named_modules() if isinstance(one, TokenEmbedding)]
        baseline, found = self.baseline if baseline is None else baseline, list[Tensor]()
        for some in mixes.to(baseline).split(max(1, _AT_A_TIME // len(baseline))):
            leaf = some.clone().requires_grad_(slopes)
            rows = (baseline + leaf[..., None] * (self.x - baseline)).flatten(0, 1)  # each in a matrix of embeddings
            ids = torch.arange(len(rows), device=rows.device).view(leaf.shape).split(self.lengths, 1)
            one_place = self.model.head.register_forward_pre_hook(lambda _, given: (given[0][:, self.position],))
            with torch.set_grad_enabled(slopes), one_place:
                logits = functional_call(self.model, dict.fromkeys(names, rows), ids, tie_weights=False)
            f = self.explained(logits.cpu().double())
            found += torch.autograd.grad(f.sum(), leaf) if slopes else [f.detach()]
        return torch.cat(found).cpu().double().numpy()


def integrated_gradients(mixtures: Mixtures, difference: float) -> tuple[Array, list[float]]:
    """(x − x′) · ∫ ∂F/∂x along the line from the baseline, by the midpoint rule (Sundararajan et al. 2017, equations 1
    and 3), (N,), with ever more steps until it adds up to the `difference` within 1 %; and what each number misses."""
    gaps: list[float] = []
    for steps in STEPS:
        middles = ((torch.arange(steps) + 0.5) / steps)[:, None].expand(-1, len(mixtures.x))
        found = mixtures(middles, slopes=True).mean(0)
        gaps.append(abs(float(found.sum()) - difference) / max(abs(difference), _ROUNDING))
        if gaps[-1] <= GAP:
            break
    return found, gaps


def value_norms(attention: MultiHeadAttention, one: AttentionPass) -> Tensor:
    """‖Σ α · f(x)‖ over heads, f(x) = (x Wᵛ + bᵛ) Wᵒ (Kobayashi et al. 2020, section 3), as shares of each query's sum.
    Shape: (T, S)."""
    value, weights, output = one.value.cpu().double(), one.weights.cpu().double(), attention.output
    matrix = output.weight.T if isinstance(output, nn.Linear) else torch.eye(len(value) * value.shape[2])
    written = value @ matrix.cpu().double().unflatten(0, (len(value), -1))  # (heads, S, D)
    alike = torch.einsum("hsd,gsd->hgs", written, written)
    norms = torch.einsum("hts,hgs,gts->ts", weights, alike, weights).clamp_min(0).sqrt()
    return norms / norms.sum(-1, keepdim=True).clamp_min(1e-300)


@torch.inference_mode()
def flow(model: Transformer, sides: Sequence[Tensor], *, values: bool = False) -> Array:
    """How much of each token is in every vector that leaves the last layer, (T, N): around an attention the residual
    connection carries half, and what its mean head sees, or with `values` what it sees by `value_norms`, is the other
    half (Abnar and Zuidema 2020, section 3); all of it without residuals. Cross-attention sees what the encoder's
    vectors hold."""
    lengths, held = [side.shape[1] for side in sides], torch.empty(0)
    passes, owns = interventions.sides(record_model(model, sides)), torch.eye(sum(lengths)).double().split(lengths)
    for (name, passed), own in zip(passes.items(), owns, strict=True):
        memory, held = held, own
        for layer, one in zip(interventions.stack_of(model, name).layers, passed.layers, strict=True):
            assert isinstance(layer, TransformerLayer)
            for attention, seen in ((layer.attention, one.attention), (layer.cross_attention, one.cross)):
                if attention is not None and seen is not None:
                    shares = value_norms(attention, seen) if values else seen.weights.cpu().double().mean(0)
                    new = shares @ (memory if attention.cross else held)
                    held = (held + new) / 2 if model.section.residuals else new
    return held.numpy()


def curves(read: Callable[[Tensor], Array], values: Array, replaced: NDArray[np.bool_]) -> tuple[Any, list[Array]]:
    """Deletion and insertion curves (Petsiuk et al. 2018): how many tokens are replaced, or put back, at P points, and
    what is `read` of those that stand, (K, N) → (K,): as the largest of `values`, (M, N), go first, as random ones do,
    (R, P), and as the largest are put back first. An insertion is the deletion of the reverse order, backwards, so that
    random orders are one sample of both."""
    size, draw = int(replaced.sum()), np.random.default_rng(0)
    orders = [*np.argsort(-values[:, replaced], kind="stable"), *(draw.permutation(size) for _ in range(_ORDERS))]
    dense = np.rint(size * (1 - np.cos(np.pi * np.arange(_POINTS + 1) / _POINTS)) / 2).astype(int)  # at both ends
    counts = np.arange(size + 1) if size <= _POINTS else np.union1d(dense, size - dense)
    gone = np.argsort(orders)[:, None] < counts[:, None]  # (M + R, P, n)
    sets = np.concatenate((~gone, gone[: len(values)]))
    standing, back = np.unique(sets.reshape(-1, size), axis=0, return_inverse=True)
    mixes = np.ones((len(standing), len(replaced)))
    mixes[:, replaced] = standing
    return counts, np.split(read(torch.tensor(mixes))[back.reshape(sets.shape[:2])], (len(values), len(orders)))


def input_attribution(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    methods: Sequence[InputMethod] = get_args(InputMethod),
    *,
    position: int | None = None,
    token: str | None = None,
    against: str | None = None,
) -> InputAttribution:
    """Divide the prediction of a token (None: the likeliest), against another where there is one, among all tokens that
    are read. The baseline has one without content in the place of every token of the text: an encoder's mask, else the
    unknown token, else padding. A UsageError where all tokens are special, or `ask` or `answer` raises one."""
    asked, roles, model = ask(run, text, target, position), run.config.roles, run.model
    sides = asked.inputs.tensors(run.device)
    direct, wanted, other = divide(run, asked, token, against)
    mask = roles.mask if run.architecture == "encoder" else None
    if run.architecture != "encoder":  # which alone sees what comes later
        sides[-1] = sides[-1][:, : asked.position + 1]
    special = torch.tensor([*run.tokenizer.special_ids], device=run.device)
    blank = next(one for one in (mask, roles.unk, roles.pad) if one is not None)
    blanks = [side.where(torch.isin(side, special), blank) for side in sides]
    replaced = ~torch.isin(torch.cat(sides, 1)[0], special).cpu().numpy()
    if not replaced.any():
        problem = f"Position {asked.position} is predicted from special tokens alone"
        raise UsageError(problem, "choose a later --position, or give a text of words")
    tables = [one.weight.detach() for one in model.modules() if isinstance(one, TokenEmbedding)]
    x, baseline = (torch.cat([table[ids[0]] for table, ids in zip(tables, of, strict=True)]) for of in (sides, blanks))

    def less(of: Tensor) -> Tensor:
        return of[:, wanted] - (of.logsumexp(-1) if other is None else of[:, other])

    lengths, ones = [side.shape[1] for side in sides], torch.ones(1, len(x))
    mixtures = Mixtures(model, lengths, x, baseline, position=asked.position, explained=less)
    value, *without, of_baseline = mixtures(torch.cat((ones, 1 - torch.eye(len(x)), 0 * ones))).tolist()
    gaps, values = list[float](), np.full((len(methods), len(x)), np.nan)
    for row, method in zip(values, methods, strict=True):
        if method == "gradient":
            row[:] = mixtures(ones, slopes=True, baseline=torch.zeros_like(x))
        elif method == "integrated-gradients":
            found, gaps = integrated_gradients(mixtures, value - of_baseline)
            row[replaced] = found[replaced]
        elif method == "occlusion":
            row[replaced] = (value - np.array(without))[replaced]
        else:
            row[:] = flow(model, sides, values=method == "value-weighted")[asked.position]
    counts, drawn = curves(mixtures if other is not None else lambda mixes: np.exp(mixtures(mixes)), values, replaced)
    down, random, up = (((of[:, 1:] + of[:, :-1]) / 2 * np.diff(counts)).sum(-1) / counts[-1] for of in drawn)
    tells = _ROUNDING * max(other is not None, *(np.abs(of).max() for of in drawn))  # a logit's error is absolute
    as_good = [(random[:, None] <= down + tells).sum(0), (random[:, None] >= up - tells).sum(0)]
    ranks = np.array([np.sign(row[:, None] - row).sum(-1) for row in values[:, replaced]])  # less their mean, twice
    ranks /= np.maximum(np.linalg.norm(ranks, axis=1, keepdims=True), 1)
    names = ("source", "target") if len(sides) > 1 else ("text",)
    return InputAttribution(
        direct=direct,
        value=value,
        of_baseline=of_baseline,
        baseline=run.tokenizer.labels([blank])[0],
        sides=tuple(np.repeat(names, lengths).tolist()),
        read=tuple(run.tokenizer.labels(torch.cat(sides, 1)[0].tolist())),
        methods=tuple(methods),
        values=frozen(values, np.float64),
        gaps=tuple(gaps),
        agreement=frozen(np.round(ranks @ ranks.T, 12) + 0.0, np.float64),  # 0, not what sums in another order leave
        unrelated=min(1.0, 1.96 / max(1, counts[-1] - 1) ** 0.5),
        counts=tuple(counts.tolist()),
        curves=frozen(drawn[::2], np.float64),
        areas=frozen((down, up), np.float64),
        as_good=frozen(np.add(as_good, 1) / (1 + _ORDERS), np.float64),
        random=frozen(drawn[1].mean(0), np.float64),
        spread=(random.mean(), *np.sort(random)[[_AS_GOOD, -1 - _AS_GOOD]]),
    )
