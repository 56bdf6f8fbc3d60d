"""Machine and model of a benchmark, and what is refused before it."""

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
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
    has_transformers = importlib.util.find_spec("transformers") is not None
    return Machine(
        processor=torch.cuda.get_device_name() if device == "cuda" else processor(),
        cores=cores(),
        threads=threads,
        device=device,
        torch=torch.__version__,
        transformers=importlib.metadata.version("transformers") if has_transformers else None,
    )


def describe_model(recipe: Recipe) -> dict[str, Any]:
    """The name and the sizes of what is measured, as records of speed begin."""
    sizes = ("architecture", "num_layers", "d_model", "num_heads", "vocab_size")
    return {"recipe": recipe.name, **{name: getattr(recipe.model, name) for name in sizes}}


def require_cores(threads: int) -> None:
    """Refuse to measure threads that wait for each other."""
    if threads > cores():
        problem = f"train.threads = {threads} is more than the {cores()} processor cores there are"
        raise UsageError(problem, "choose --threads no larger than that")


def require_transformers() -> None:
    """Refuse, before any work, to compare with a library that is not there."""
    if importlib.util.find_spec("transformers") is None:
        raise UsageError("There is no library transformers to compare with", "install it: pip install transformers")


Shape = tuple[int, int, int]  # rows N, inner size K, columns M of (N, K) × (K, M)

SQUARES: tuple[Shape, ...] = tuple((n, n, n) for n in (1024, 2048, 4096))
_SECONDS = 0.5
_FEWEST, _MOST = 2, 200
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
    return sorted(shapes, key=_flops, reverse=True)[:2]


class Products(Side):
    """Whose step is a round of products, many short repeats of each shape and precision."""

    def __init__(self, shapes: Iterable[Shape], precisions: Sequence[str], device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.shapes, self.precisions = list(shapes), precisions
        self.device = torch.device(device)

    def step(self) -> Answer:
        """The peak of each precision in this round, under "peaks"."""
        rounds = ([self._measure(shape, precision) for shape in self.shapes] for precision in self.precisions)
        return {"peaks": [max(peaks, key=lambda peak: peak[1]) for peaks in rounds]}

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
            synchronize(self.device)
            seconds = time.perf_counter() - began
            repeats += 1
            if repeats > 0:  # the first one prepares
                fastest, spent = min(fastest, seconds / at_once), spent + seconds
        return fastest


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


_ROWS, _COLUMNS = 32_768, 4096
_REPEATS = 5  # in a step, after one that prepares


class Bandwidth(Side):
    """Whose step reads 512 MB in two ways, several times each: as a matrix that is multiplied with a vector, which is
    what generation does, and as a sum."""

    def __init__(self, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.device = choose_device(device)
        self.matrix = torch.ones(_ROWS, _COLUMNS, device=self.device)
        self.vector = torch.ones(_COLUMNS, device=self.device)

    def about(self) -> Answer:
        """How much is read."""
        return {"bytes": self.matrix.nbytes}

    @torch.inference_mode()
    def step(self) -> Answer:
        """The best of this round, under "bytes_per_second"."""
        seconds = min(self._fastest(lambda: self.matrix @ self.vector), self._fastest(self.matrix.sum))
        return {"bytes_per_second": self.matrix.nbytes / seconds}

    def _fastest(self, read: Callable[[], torch.Tensor]) -> float:
        taken = []
        for _ in range(_REPEATS + 1):
            began = time.perf_counter()
            read()
            synchronize(self.device)
            taken.append(time.perf_counter() - began)
        return min(taken[1:])
