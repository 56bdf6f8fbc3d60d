"""Peak FLOP/s: the machine's fastest matrix product, of three square ones and the two largest of the model."""

import time
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from tfcli.bench.protocol import Answer
from tfcli.models.build import weightless
from tfcli.models.head import Head
from tfcli.recipe.model import ModelSection
from tfcli.records.bench import MatrixPeak

Shape = tuple[int, int, int]
"""Rows N, inner size K, columns M of (N, K) × (K, M)."""

SQUARES: tuple[Shape, ...] = tuple((n, n, n) for n in (1024, 2048, 4096))

_SECONDS = 0.5
_FEWEST, _MOST = 2, 200
_AT_ONCE = 10
"""Products that a GPU is given before it is waited for, so that giving them costs nothing."""


def largest_products(section: ModelSection, tokens: int, labelled: int) -> list[Shape]:
    """The two largest matrix products of a forward pass over `tokens` tokens, of which the head reads `labelled`."""
    shapes: set[Shape] = set()
    for module in weightless(section).modules():
        if isinstance(module, Head):
            vocab_size, size = module.weight.shape
            shapes.add((labelled, size, vocab_size))
        elif isinstance(module, nn.Linear):
            shapes.add((tokens, module.in_features, module.out_features))
    return sorted(shapes, key=_flops, reverse=True)[:2]


class Products:
    """A side of the benchmark whose step is a round of products, many short repeats of each shape and precision."""

    def __init__(self, shapes: Iterable[Shape], precisions: Sequence[str], device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.shapes, self.precisions = list(shapes), precisions
        self.device = torch.device(device)

    def about(self) -> Answer:
        """Nothing that is not known."""
        return {}

    def step(self) -> Answer:
        """The peak of each precision in this round, under "peaks"."""
        return {
            "peaks": [
                max((self._measure(shape, precision) for shape in self.shapes), key=lambda peak: peak[1])
                for precision in self.precisions
            ]
        }

    def _measure(self, shape: Shape, precision: str) -> tuple[str, float, Shape]:
        rows, inner, columns = shape
        kind = {"device": self.device, "dtype": getattr(torch, precision)}
        left, out = torch.randn(rows, inner, **kind), torch.empty(rows, columns, **kind)
        # As the forward pass multiplies by a weight, and as the backward pass does: a library may prefer one of them.
        ways = (torch.randn(columns, inner, **kind).T, torch.randn(inner, columns, **kind))
        seconds = min(self._fastest(left, right, out) for right in ways)
        return precision, _flops(shape) / seconds, shape

    def _fastest(self, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> float:
        at_once = 1 if self.device.type == "cpu" else _AT_ONCE
        fastest, spent, repeats = float("inf"), 0.0, -1
        while repeats < _FEWEST or (spent < _SECONDS and repeats < _MOST):
            began = time.perf_counter()
            for _ in range(at_once):
                torch.mm(left, right, out=out)
            self._wait()
            seconds = time.perf_counter() - began
            repeats += 1
            if repeats > 0:  # the first one prepares
                fastest, spent = min(fastest, seconds / at_once), spent + seconds
        return fastest

    def _wait(self) -> None:
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()


def best_peaks(rounds: Iterable[Answer]) -> tuple[MatrixPeak, ...]:
    """The best of all rounds, of each precision."""
    best: dict[str, MatrixPeak] = {}
    for answer in rounds:
        for precision, flops_per_second, (rows, inner, columns) in answer["peaks"]:
            if precision not in best or flops_per_second > best[precision].flops_per_second:
                best[precision] = MatrixPeak(precision, flops_per_second, rows, inner, columns)
    return tuple(best.values())


def _flops(shape: Shape) -> int:
    rows, inner, columns = shape
    return 2 * rows * inner * columns
