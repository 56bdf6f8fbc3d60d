"""The training objective as one module, so that whatever wraps modules (DDP, FSDP, torch.compile) holds all of it.

The logits of 1,024 tokens over 50,257 words take 200 MB in float32, their gradient as much again, and each is read and
written several times. Here the vocabulary goes by in blocks that stay in the cache: one pass finds the loss, a second
one turns each block of logits into its gradient and that into the gradients of the hidden vectors and of the matrix.
Shape legend: N tokens, D model, Vocab words."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.layers.kernels import for_products
from tfcli.models.head import Head
from tfcli.models.objective import labelled_hidden, targets_of
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection

BLOCK = {"cpu": 1 << 21}  # logits worked on at a time, by device: what a processor's cache holds
LARGEST_BLOCK = 1 << 28  # the same for GPUs, which are slowed by many small blocks: a gigabyte in float32
MOST_TOKENS = 1 << 13  # tokens whose logits are held at a time, in the precision of the matrix product
MULTIPLE = {"cuda": 64}  # words that the matrix product is made of, by device: so a GPU's matrix units read whole rows


def linear_cross_entropy(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (Vocab, D)
    bias: Tensor | None,  # (Vocab,)
    labels: Tensor,  # (N,)
    smoothing: float = 0.0,
    *,
    compiled: bool = False,  # by torch.compile: two passes over the logits for ten, a third of GPT-2's step on a GPU
) -> tuple[Tensor, Tensor]:
    """−Σ q log softmax(h Wᵀ + b) with q = (1 − ε) one-hot + ε / Vocab (Szegedy et al. 2016, section 7), summed over the
    tokens whose label is not `IGNORED`; and beside it the same with ε = 0, through which no gradient comes. Both are
    (), in float32."""
    return _LinearCrossEntropy.apply(hidden, weight, bias, labels, smoothing, compiled)


class _LinearCrossEntropy(torch.autograd.Function):
    """With log Z = log Σ exp(x): the loss of a token is log Z − Σ q x, its gradient by the logits softmax(x) − q."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *how: Any
    ) -> tuple[Tensor, Tensor]:
        more = -len(weight) % MULTIPLE.get(weight.device.type, 1)
        matrix = F.pad(weight.to(hidden.dtype), (0, 0, 0, more)) if more else weight.to(hidden.dtype)
        offsets = None if bias is None else F.pad(bias.to(hidden.dtype), (0, more))
        wanted = ctx.needs_input_grad[:3]
        d_hidden = torch.empty_like(hidden) if any(wanted) else None
        made = torch.empty_like if len(hidden) else torch.zeros_like  # where there are tokens, the first ones fill it
        d_weight = made(weight, dtype=torch.float32) if wanted[1] else None
        d_bias = torch.zeros_like(weight[:, 0], dtype=torch.float32) if wanted[2] else None
        totals = hidden.new_zeros(2, dtype=torch.float32)
        for first in range(0, len(hidden), MOST_TOKENS):
            rows = slice(first, first + MOST_TOKENS)
            tokens = _Tokens(hidden[rows], matrix, offsets, labels[rows], len(weight), *how)
            totals += tokens.losses()
            if d_hidden is not None:
                d_hidden[rows] = tokens.gradients(d_weight, d_bias, first=first == 0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        total, plain = totals.clone().unbind()
        ctx.mark_non_differentiable(plain)
        return total, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None if found is None else found.mul_(gradient) for found in ctx.saved_tensors), None, None, None)


@dataclass
class _Tokens:
    """Some tokens and their logits, of which those behind the vocabulary are there for the matrix product alone."""

    hidden: Tensor
    matrix: Tensor
    offsets: Tensor | None
    labels: Tensor
    vocab_size: int
    smoothing: float
    compiled: bool

    def __post_init__(self) -> None:
        self.scored = self.labels != IGNORED
        self.labels = self.labels.masked_fill(~self.scored, 0)[:, None]
        self.logits: list[Tensor] = []
        self.log_z = self.of_label = self.hidden.new_empty(0)

    def losses(self) -> Tensor:
        """Log Z − Σ q x, where Z = Σ exp(x − m) exp(m) by blocks, m the largest yet; and without smoothing, (2,)."""
        largest = self.hidden.new_full((len(self.hidden),), -torch.inf, dtype=torch.float32)
        z, of_all, of_label = (torch.zeros_like(largest) for _ in range(3))
        for block, words, place, is_in in self._blocks():
            found = torch.mm(self.hidden, self.matrix[block].T)
            self.logits.append(found if self.offsets is None else found.add_(self.offsets[block]))
            logits = self.logits[-1][:, :words]
            of_label += logits.gather(1, place)[:, 0].float().masked_fill_(~is_in[:, 0], 0.0)
            highest, powers, total = self._way(_sums)(logits, self.smoothing > 0)
            of_all += total
            before, largest = largest, torch.maximum(largest, highest)
            z = z * (before - largest).exp_() + powers * (highest - largest).exp_()
        self.log_z, self.of_label = largest + z.log(), of_label
        expected = (1 - self.smoothing) * of_label + self.smoothing / self.vocab_size * of_all
        losses = (self.log_z - expected, self.log_z - of_label)
        return torch.stack([loss.masked_fill_(~self.scored, 0.0).sum() for loss in losses])

    def gradients(self, d_weight: Tensor | None, d_bias: Tensor | None, *, first: bool) -> Tensor:
        """The gradient by the hidden vectors, (N, D); those by matrix and bias are added to what is given."""
        d_hidden = torch.zeros_like(self.hidden, dtype=torch.float32)
        share, spread = self.scored[:, None].float(), self.smoothing / self.vocab_size
        at_label = ((self.of_label - self.log_z).exp_() - spread + (self.smoothing - 1))[:, None] * share
        for (block, count, place, is_in), logits in zip(self._blocks(), self.logits, strict=True):
            d_logits = self._way(_slopes)(logits, self.log_z[:, None], share, spread)
            words = d_logits[:, :count]
            words.scatter_(1, place, torch.where(is_in, at_label.to(words.dtype), words.gather(1, place)))
            d_logits[:, words.shape[1] :] = 0.0
            if d_bias is not None:
                d_bias[block] += words.sum(0, dtype=torch.float32)
            d_hidden += d_logits @ self.matrix[block]
            if d_weight is not None:
                found, part = (d_logits.T @ self.hidden)[: words.shape[1]], d_weight[block]
                part.copy_(found) if first else part.add_(found)
        return d_hidden

    def _way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return _compiled(function) if self.compiled else function

    def _blocks(self) -> Iterator[tuple[slice, int, Tensor, Tensor]]:
        """Rows of the matrix, and how many are words; where each token's label stands there, and whether it does."""
        size = BLOCK.get(self.hidden.device.type, LARGEST_BLOCK) // len(self.hidden)
        size = len(self.matrix) if self.compiled else max(64, size)
        for first in range(0, self.vocab_size, size):
            end = min(first + size, self.vocab_size)
            place = self.labels - first
            is_in = (place >= 0) & (self.labels < end)
            block = slice(first, len(self.matrix) if end == self.vocab_size else end)
            yield block, end - first, place.clamp(0, end - first - 1), is_in


def _sums(logits: Tensor, of_all: bool) -> tuple[Tensor, Tensor, Tensor | float]:
    """The largest logit m of each token, Σ exp(x − m), and Σ x where it is asked for."""
    x = logits.float()
    largest = x.amax(1)
    return largest, (x - largest[:, None]).exp_().sum(1), x.sum(1) if of_all else 0.0


def _slopes(logits: Tensor, log_z: Tensor, share: Tensor, spread: float) -> Tensor:
    """The gradient by the logits, (softmax(x) − ε / Vocab) · share, of all words as if none were the label."""
    p = logits.float().sub_(log_z).exp_()
    if spread:
        p -= spread
    return p.mul_(share).to(logits.dtype)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True)


class TrainingLoss(nn.Module):
    """The cross-entropy of a batch, summed over its target tokens, and the same with label smoothing, to be minimised;
    the model runs in the precision of the recipe. `class_weights` weigh what is minimised by label, (C,)."""

    def __init__(self, model: Transformer, train: TrainSection, class_weights: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.model = model
        self.label_smoothing = train.label_smoothing or 0.0
        self.autocasts, self.compiled = train.precision == "bfloat16", train.compile == "on"

    def forward(self, batch: Batch) -> Tensor:
        """Nats, summed, (2,), float32: plain, through which no gradient comes, and to be minimised."""
        device = self.model.device
        if self.model.section.labels:
            return self._of_labels(batch, device)
        head = self.model.head
        assert isinstance(head, Head), "a model without a head is refused before training"
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocasts):
            hidden, labels = labelled_hidden(self.model, batch, device)
            vectors = for_products(head.prepared(hidden))
        minimised, plain = linear_cross_entropy(
            vectors, head.weight, head.bias, labels, self.label_smoothing, compiled=self.compiled
        )
        return torch.stack((plain, minimised))

    def _of_labels(self, batch: Batch, device: torch.device) -> Tensor:
        """As `forward`, of a task head, whose logits are few."""
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocasts):
            logits, labels = map(torch.cat, zip(*targets_of(self.model, batch, device), strict=True))
        loss, weights, scores = F.cross_entropy, self.get_buffer("class_weights"), logits.float()
        minimised = loss(scores, labels, weights, reduction="sum", label_smoothing=self.label_smoothing)
        return torch.stack((loss(scores.detach(), labels, reduction="sum"), minimised))
