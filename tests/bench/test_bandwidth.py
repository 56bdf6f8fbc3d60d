"""Bytes over seconds, of the faster way."""

import pytest

from tfcli.bench import machine
from tfcli.bench.machine import Bandwidth


def test_what_is_read_is_larger_than_caches():
    assert machine._ROWS * machine._COLUMNS * 4 > 256e6


def test_the_best_of_both_ways(monkeypatch: pytest.MonkeyPatch):
    """2 × 4,096 float32 are 32,768 bytes. A clock whose steps shrink: the product takes 2 s at best, the sum 1 s. The
    first of each way, far quicker, prepares and does not count."""
    taken = [0.1, 9, 9, 2, 9, 9, 0.1, 8, 1, 8, 8, 8]
    looks = [time for seconds in taken for time in (100.0, 100.0 + seconds)]
    clock = iter(looks)
    monkeypatch.setattr("tfcli.bench.machine.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr(machine, "_ROWS", 2)
    side = Bandwidth("cpu", 1)
    assert side.matrix.nbytes == 32_768
    assert side.step()["bytes_per_second"] == pytest.approx(32_768)
