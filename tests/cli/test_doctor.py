"""`tfcli doctor`: what it finds, what it says of it, and what it keeps to itself."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cli.commands import tfcli
from tfcli import machine
from tfcli.doctor import compute as doctor

GIB = 1 << 30


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> pytest.MonkeyPatch:
    """Four cores that nobody else uses, and plenty of memory."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(machine, "free_cores", lambda: 4)
    monkeypatch.setattr(machine, "free_memory", lambda: 8 * GIB)
    monkeypatch.setattr(doctor, "_NVIDIA", Path("/nowhere"))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    return monkeypatch


def found() -> dict[str, Any]:
    result = tfcli("doctor", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def problems() -> list[str]:
    return [one["problem"] for one in found()["advice"]]


def test_what_is_there_is_told(alone: pytest.MonkeyPatch, own_cache: Path):
    (own_cache / "datasets" / ("a" * 16)).mkdir(parents=True)
    (own_cache / "datasets" / ("a" * 16) / "manifest.json").write_bytes(b"x" * 4321)
    here = found()
    assert here["versions"]["torch"] == torch.__version__
    assert here["versions"]["datasets"] == version("datasets")
    cache = {"place": str(own_cache), "named": "TFCLI_CACHE", "datasets": 1, "tokenizers": 0, "size": 4321}
    assert here["cache"] == cache | {"disk_free": here["cache"]["disk_free"]}
    assert here["terminal"]["is_terminal"] is False and here["memory"]["free"] == 8 * GIB
    extras = {one["name"]: one["install"] for one in here["extras"]}
    assert extras["textual"] == "pip install 'tfcli[tui]'"
    assert here["advice"] == []
    shown = tfcli("doctor")
    assert "Nothing is missing" in shown.stdout and max(map(len, shown.stdout.splitlines())) <= 80


def test_gpus_are_told_with_memory_and_compute_capability(alone: pytest.MonkeyPatch):
    gpu = SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=80 * GIB, major=9, minor=0)
    alone.setattr(torch.cuda, "is_available", lambda: True)
    alone.setattr(torch.cuda, "device_count", lambda: 1)
    alone.setattr(torch.cuda, "get_device_properties", lambda number: gpu)
    assert found()["cuda"] == [{"name": gpu.name, "memory": 80 * GIB, "compute_capability": "9.0"}]
    assert "NVIDIA H100 80GB HBM3, 85.9 GB, compute 9.0" in " ".join(tfcli("doctor").stdout.split())


def test_what_makes_it_slow_is_said_with_the_remedy(alone: pytest.MonkeyPatch, tmp_path: Path):
    alone.setattr(machine, "free_cores", lambda: 1)
    alone.setattr(machine, "free_memory", lambda: GIB)
    alone.setattr(machine, "_CONTAINER", tmp_path)
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(f"{3 * GIB}\n")
    alone.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    alone.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    alone.setattr(torch.backends.mps, "is_available", lambda: True)
    told = "\n".join(problems())
    assert "3 of 4 cores are busy with other programs: a training takes about 4.0 times as long" in told
    assert "The container has 1.5 cores' worth of time, and shows 4 cores" in told
    assert "neither AVX2 nor AVX-512" in told and "cannot use the NVIDIA GPU" in told and "MPS is untried" in told
    assert "Less than 2 GB of memory are free" in told
    assert "no more than 3.22 GB in this container" in tfcli("doctor", "--report").stdout
    alone.setenv("OMP_NUM_THREADS", "2")
    alone.setattr(machine, "choose_threads", lambda wanted, usual: 2)
    assert "OMP_NUM_THREADS=2 in the environment asks for 2, and 1 of 4 cores are free" in problems()


def test_nothing_that_is_missing_or_broken_stops_it(alone: pytest.MonkeyPatch, tmp_path: Path):
    def fails(*_: object) -> Any:
        raise OSError("not on this system")

    for name in ("processor", "free_cores", "quota", "memory", "free_memory", "memory_limit"):
        alone.setattr(machine, name, fails)
    for place, name in ((torch.backends.mps, "is_available"), (doctor.shutil, "disk_usage")):
        alone.setattr(place, name, fails)
    alone.setattr(torch.cuda, "is_available", fails)
    alone.setenv("TFCLI_CACHE", "~nobody-of-that-name/cache")
    alone.setenv("TERM", "a\x1b[31mb")
    alone.setattr(doctor, "of_unix", lambda name: None)
    alone.setattr(doctor, "_PACKAGES", ("torch", "nosuchlibrary"))
    assert tfcli("doctor", "--report").stdout.startswith("```text\n")
    assert "--json names folders of yours" in tfcli("doctor", "--report", "--json").stderr
    shown = tfcli("doctor")
    assert shown.exit_code == 0 and "\x1b" not in shown.stdout
    assert "nosuchlibrary is not installed" in shown.stdout and "The cache cannot be written" in shown.stdout


def test_without_pytorch_it_says_why_and_a_report_names_no_folder(tmp_path: Path, own_cache: Path):
    home = tmp_path / "home of zoe"
    broken = home / "venv" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(f"raise OSError({str(broken / 'libtorch.so')!r} + ': cannot open')\n")
    code = f"import sys; sys.path.insert(0, {str(broken.parent)!r}); from tfcli.cli.main import main; main()"
    environment = {**os.environ, "HOME": str(home), "COLUMNS": "200", "TFCLI_CACHE": str(home / "cache")}

    def said(*options: str) -> str:
        command = [sys.executable, "-c", code, "doctor", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"PyTorch cannot be loaded: {broken}/libtorch.so: cannot open" in said()
    report = said("--report")
    assert "PyTorch cannot be loaded: …/libtorch.so: cannot open" in report
    assert "zoe" not in report and str(tmp_path) not in report and "TFCLI_CACHE" in report
    assert report.startswith("```text\n") and report.endswith("\n```\n")
