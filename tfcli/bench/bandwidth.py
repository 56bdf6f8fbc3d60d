"""Memory bandwidth: how fast this machine reads more numbers than its caches hold."""

import time
from collections.abc import Callable

import torch

from tfcli.bench.protocol import Answer
from tfcli.training.precision import choose_device

_ROWS, _COLUMNS = 32_768, 4096
_REPEATS = 5
"""In a step, after one that prepares."""


class Bandwidth:
    """A side of the benchmark whose step reads 512 MB in two ways, several times each: as a matrix that is multiplied
    with a vector, which is what generation does, and as a sum."""

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
            if self.device.type != "cpu":
                getattr(torch, self.device.type).synchronize()
            taken.append(time.perf_counter() - began)
        return min(taken[1:])
