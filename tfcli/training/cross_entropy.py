"""The loss of a linear layer's predictions, without ever holding all probabilities.

The logits of 1,024 tokens over 50,257 words take 200 MB in float32, their gradient as much again, and each is read and
written several times. Here the vocabulary goes by in blocks that stay in the cache: one pass finds the loss, a second
one turns each block of logits into its gradient and that into the gradients of the hidden vectors and of the matrix.
Shape legend: N tokens, D model, Vocab words.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfcli.data.batch import IGNORED

BLOCK = {"cpu": 1 << 21}
"""Logits worked on at a time, by device: what a processor's cache holds."""

LARGEST_BLOCK = 1 << 28
"""The same for GPUs, which are slowed by many small blocks: a gigabyte in float32."""

MOST_TOKENS = 1 << 13
"""Tokens whose logits are held at a time, in the precision of the matrix product."""


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """−Σ q log softmax(h Wᵀ + b) with q = (1 − ε) one-hot + ε / Vocab (Szegedy et al. 2016, section 7), summed over the
    tokens whose label is not `IGNORED`; and beside it the same with ε = 0, through which no gradient comes.

    Shape:
        hidden: (N, D); weight: (Vocab, D); bias: (Vocab,); labels: (N,)
        returns: () and (), float32
    """
    return _LinearCrossEntropy.apply(hidden, weight, bias, labels, smoothing)


class _LinearCrossEntropy(torch.autograd.Function):
    """With log Z = log Σ exp(x): the loss of a token is log Z − Σ q x, its gradient by the logits softmax(x) − q."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        matrix = weight.to(hidden.dtype)
        offsets = None if bias is None else bias.to(hidden.dtype)
        wanted = ctx.needs_input_grad[:3]
        d_hidden = torch.empty_like(hidden) if any(wanted) else None
        made = torch.empty_like if len(hidden) else torch.zeros_like  # where there are tokens, the first ones fill it
        d_weight = made(weight, dtype=torch.float32) if wanted[1] else None
        d_bias = torch.zeros_like(weight[:, 0], dtype=torch.float32) if wanted[2] else None
        totals = hidden.new_zeros(2, dtype=torch.float32)
        for first in range(0, len(hidden), MOST_TOKENS):
            rows = slice(first, first + MOST_TOKENS)
            tokens = _Tokens(hidden[rows], matrix, offsets, labels[rows], smoothing)
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
        scaled = (None if found is None else found.mul_(gradient) for found in ctx.saved_tensors)
        return (*scaled, None, None)


class _Tokens:
    """Some tokens and their logits."""

    def __init__(
        self, hidden: Tensor, matrix: Tensor, offsets: Tensor | None, labels: Tensor, smoothing: float
    ) -> None:
        self.hidden, self.matrix, self.offsets = hidden, matrix, offsets
        self.scored = labels != IGNORED
        self.labels = labels.masked_fill(~self.scored, 0)[:, None]
        self.smoothing = smoothing
        self.logits: list[Tensor] = []
        self.log_z = hidden.new_empty(0)

    def losses(self) -> Tensor:
        """log Z − Σ q x, with log Z gathered block by block: Z = Σ exp(x − m) exp(m), m the largest x so far; and the
        same without smoothing. Remembers the logits.

        Shape:
            returns: (2,)
        """
        largest = self.hidden.new_full((len(self.hidden),), -torch.inf, dtype=torch.float32)
        z, of_all, of_label = (torch.zeros_like(largest) for _ in range(3))
        for block in self._blocks():
            self.logits.append(self._product(block))
            x = self.logits[-1].float()
            of_label += x.gather(1, self._place(x, block))[:, 0].masked_fill_(~self._is_in(x, block), 0.0)
            if self.smoothing:
                of_all += x.sum(1)
            before, largest = largest, torch.maximum(largest, x.amax(1))
            z = z * (before - largest).exp_() + x.sub(largest[:, None]).exp_().sum(1)
        self.log_z = largest + z.log()
        expected = (1 - self.smoothing) * of_label + self.smoothing / len(self.matrix) * of_all
        losses = (self.log_z - expected, self.log_z - of_label)
        return torch.stack([loss.masked_fill_(~self.scored, 0.0).sum() for loss in losses])

    def gradients(self, d_weight: Tensor | None, d_bias: Tensor | None, *, first: bool) -> Tensor:
        """The gradient by the hidden vectors; those by the matrix and the bias are added to what is given, or, of the
        first tokens, put there.

        Shape:
            d_weight: (Vocab, D), d_bias: (Vocab,), float32
            returns: (N, D)
        """
        d_hidden = torch.zeros_like(self.hidden, dtype=torch.float32)
        share = self.scored[:, None].float()
        for block, logits in zip(self._blocks(), self.logits, strict=True):
            p = logits.float().sub_(self.log_z[:, None]).exp_()
            if self.smoothing:
                p -= self.smoothing / len(self.matrix)
            self._subtract_labels(p, block)
            p.mul_(share)
            if d_bias is not None:
                d_bias[block] += p.sum(0)
            d_logits = p.to(self.hidden.dtype)
            d_hidden += d_logits @ self.matrix[block]
            if d_weight is not None:
                found = d_logits.T @ self.hidden
                d_weight[block] = found if first else d_weight[block] + found
        return d_hidden

    def _blocks(self) -> Iterator[slice]:
        size = max(64, BLOCK.get(self.hidden.device.type, LARGEST_BLOCK) // len(self.hidden))
        return (slice(first, first + size) for first in range(0, len(self.matrix), size))

    def _product(self, block: slice) -> Tensor:
        found = torch.mm(self.hidden, self.matrix[block].T)
        return found if self.offsets is None else found.add_(self.offsets[block])

    def _place(self, x: Tensor, block: slice) -> Tensor:
        """Where the label of each token stands in a block; anywhere, where it is not in it."""
        return (self.labels - block.start).clamp(0, x.shape[1] - 1)

    def _is_in(self, x: Tensor, block: slice) -> Tensor:
        return ((self.labels >= block.start) & (self.labels < block.start + x.shape[1]))[:, 0]

    def _subtract_labels(self, p: Tensor, block: slice) -> None:
        """p − (1 − ε) at the right word of each token, where that word is in the block."""
        share = self._is_in(p, block)[:, None].to(p.dtype) * (self.smoothing - 1)
        p.scatter_add_(1, self._place(p, block), share)
