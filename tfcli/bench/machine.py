"""Machine and model of a benchmark, and what is refused before it."""

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from operator import itemgetter
from typing import Any

import torch
from torch import nn

from tfcli.bench import Machine, MatrixPeak
from tfcli.bench.measure import Answer, Side
from tfcli.errors import UsageError
from tfcli.machine import cores, processor
from tfcli.models.build import meta_model
from tfcli.models.device import choose_device, synchronize
from tfcli.models.head import Head
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe


def describe_machine(device: str, threads: int) -> Machine:
    """The machine here, by what decides its speed."""
    there = importlib.metadata.version("transformers") if importlib.util.find_spec("transformers") else None
    chip = torch.cuda.get_device_name() if device == "cuda" else processor()
    return Machine(chip, cores(), threads, device, torch=torch.__version__, transformers=there)


def describe_model(recipe: Recipe) -> dict[str, Any]:
    """The name and the sizes of what is measured, as records of speed begin."""
    sizes = ("architecture", "num_layers", "d_model", "num_heads", "vocab_size")
    return {"recipe": recipe.name, **{name: getattr(recipe.model, name) for name in sizes}}


def require_sides(threads: int, *, transformers: bool) -> None:
    """Refuse, before any work, threads that wait for each other, and to compare with a library that is not there."""
    if threads > cores():
        problem = f"train.threads = {threads} is more than the {cores()} processor cores there are"
        raise UsageError(problem, "choose --threads no larger than that")
    if transformers and not importlib.util.find_spec("transformers"):
        raise UsageError("There is no library transformers to compare with", "install it: pip install transformers")


Shape = tuple[int, int, int]  # rows N, inner size K, columns M of (N, K) × (K, M)
SQUARES: tuple[Shape, ...] = tuple((n, n, n) for n in (1024, 2048, 4096))
_SECONDS, _FEWEST, _MOST = 0.5, 2, 200
_AT_ONCE = 10  # products that a GPU is given before it is waited for, so that giving them costs nothing


def largest_products(section: ModelSection, tokens: int, labelled: int) -> list[Shape]:
    """The two largest matrix products of a forward pass over `tokens` tokens, of which the head reads `labelled`."""
    shapes: set[Shape] = set()
    for module in meta_model(section).modules():
        if isinstance(module, Head):
            vocab_size, size = module.weight.shape
            shapes.add((labelled, size, vocab_size))
        elif isinstance(module, nn.Linear):
            shapes.add((tokens, module.in_features, module.out_features))
    return sorted(shapes, key=prod, reverse=True)[:2]


class Products(Side):
    """Whose step is a round of products, many short repeats of each shape and precision."""

    def __init__(self, shapes: Iterable[Shape], precisions: Sequence[str], device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.shapes, self.precisions, self.device = list(shapes), precisions, torch.device(device)

    def step(self) -> Answer:
        """The peak of each precision in this round, under "peaks"."""
        rounds = ([self._measure(shape, precision) for shape in self.shapes] for precision in self.precisions)
        return {"peaks": [max(peaks, key=itemgetter(1)) for peaks in rounds]}

    def _measure(self, shape: Shape, precision: str) -> tuple[str, float, Shape]:
        rows, inner, columns = shape
        kind = {"device": self.device, "dtype": getattr(torch, precision)}
        left, out = torch.randn(rows, inner, **kind), torch.empty(rows, columns, **kind)
        # As the forward pass multiplies by a weight, and as the backward pass does: a library may prefer one of them.
        ways = (torch.randn(columns, inner, **kind).T, torch.randn(inner, columns, **kind))
        return precision, 2 * prod(shape) / min(self._fastest(left, right, out) for right in ways), shape

    def _fastest(self, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> float:
        at_once, taken = 1 if self.device.type == "cpu" else _AT_ONCE, list[float]()
        multiply = partial(torch.mm, left, right, out=out)
        _seconds(self.device, multiply, at_once)  # the first one prepares
        while len(taken) < _FEWEST or (sum(taken) < _SECONDS and len(taken) < _MOST):
            taken.append(_seconds(self.device, multiply, at_once))
        return min(taken) / at_once


def _seconds(device: torch.device, work: Callable[[], object], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    synchronize(device)
    return time.perf_counter() - began


def best_peaks(rounds: Iterable[Answer]) -> tuple[MatrixPeak, ...]:
    """The best of all rounds, of each precision."""
    best = (max(peaks, key=itemgetter(1)) for peaks in zip(*(answer["peaks"] for answer in rounds), strict=True))
    return tuple(MatrixPeak(precision, flops_per_second, *shape) for precision, flops_per_second, shape in best)


_ROWS, _COLUMNS = 32_768, 4096
_REPEATS = 5  # in a step, after one that prepares


class Bandwidth(Side):
    """Whose step reads 512 MB several times: multiplied with a vector, as generation does, and as a sum."""

    def __init__(self, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.device = choose_device(device)
        self.matrix = torch.ones(_ROWS, _COLUMNS, device=self.device)
        self.vector = torch.ones(_COLUMNS, device=self.device)

    @torch.inference_mode()
    def step(self) -> Answer:
        """The best of this round, under "bytes_per_second"."""
        ways = (lambda: self.matrix @ self.vector, self.matrix.sum)
        taken = [[_seconds(self.device, way) for _ in range(_REPEATS + 1)] for way in ways]
        return {"bytes_per_second": self.matrix.nbytes / min(min(seconds[1:]) for seconds in taken)}
