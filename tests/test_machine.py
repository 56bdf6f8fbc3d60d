"""As many threads as there are free cores, and with more, those that wait sleep; the memory that is free."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from tests.support.runs import tiny_recipe
from tfcli import machine
from tfcli.records.runs import TrainingStarted
from tfcli.training.job import resolve_for_machine
from tfcli.training.view import event_line


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    before = torch.get_num_threads()
    machine.free_cores.cache_clear()
    yield
    machine.free_cores.cache_clear()
    torch.set_num_threads(before)


def machine_of(monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> None:
    """A machine with a core a share, of which a busy thread gets that share."""
    own, numbers = threading.local(), itertools.count()

    def wall() -> float:
        if not hasattr(own, "share"):
            own.share, own.now = shares[next(numbers) % len(shares)], 0.0
        own.now += 0.001
        return float(own.now)

    clock = SimpleNamespace(perf_counter=wall, thread_time=lambda: own.now * own.share)
    monkeypatch.setattr(machine, "time", clock)
    monkeypatch.setattr(machine, "cores", lambda: len(shares))


@pytest.mark.parametrize(
    ("shares", "free"),
    [([1, 1], 2), ([0.99, 0.93], 2), ([1, 0.5], 1), ([0.5, 0.5], 1), ([0.2, 0.3], 1), ([1] * 7 + [0.5], 7)],
)
def test_free_cores_are_those_that_busy_threads_get(
    shares: list[float], free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.busy_cores() == 0
    machine_of(monkeypatch, shares)
    assert machine.free_cores() == free
    assert machine.busy_cores() == len(shares) - free


def test_on_a_real_machine_there_is_a_core_at_least() -> None:
    assert 1 <= machine.free_cores() <= machine.cores()


def test_a_run_takes_the_free_cores_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch, [1, 1, 0.4, 1])
    torch.set_num_threads(4)
    recipe = tiny_recipe("decoder")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert machine.choose_threads(0, 4) == 4
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert machine.choose_threads(4, 2) == 4
    train = resolve_for_machine(replace(recipe, train=replace(recipe.train, threads=0))).train
    assert (train.threads, machine.busy_cores()) == (3, 1)
    started = TrainingStarted("runs/a", "decoder", 9, 0, 9, 9, 9, 9, "cpu", "float32", train.threads, 1)
    assert "float32, 3 threads, 9 steps" in event_line(started)
    assert event_line(started).endswith("; other programs use 1 core, and it computes with 3 threads")


@pytest.mark.parametrize(
    ("free", "told", "waits"), [(1, {}, "passive"), (2, {}, "None"), (1, {"OMP_WAIT_POLICY": "active"}, "active")]
)
def test_more_threads_than_free_cores_sleep_while_they_wait(free: int, told: dict[str, str], waits: str) -> None:
    code = (
        f"import os\nfrom tfcli import machine\nmachine.free_cores = lambda: {free}\nmachine.wait_asleep_if_busy(2)\n"
        "print(os.environ.get('OMP_WAIT_POLICY'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**environment, **told}
    )
    assert done.stdout.split() == [waits]


def test_free_memory_is_what_system_and_container_leave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """2,048,000 of 9,216,000 bytes are available; a container of 1,500,000 holds 900,000, of them 300,000 of files."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=9_216_000, available=2_048_000))
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path)
    assert (machine.memory(), machine.free_memory()) == (9_216_000, 2_048_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.free_memory() == 2_048_000
    (tmp_path / "memory.max").write_text("1500000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 400000\ninactive_file 300000\nactive_file 5\n")
    assert (machine.memory(), machine.free_memory()) == (1_500_000, 900_000)
