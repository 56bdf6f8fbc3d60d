"""Environment report (`doctor`): what tfcli runs on here, and what makes it slow. What is missing stops nothing."""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import tfcli
from tfcli import machine
from tfcli.data.cache import entries
from tfcli.doctor import Advice, Cache, Diagnosis, Extra, Gpu, Memory, Processor, TerminalFacts
from tfcli.errors import TfcliError, first_lines
from tfcli.files import cache_folder, require_writable
from tfcli.machine import of_unix
from tfcli.records.dataset import CacheEntry

_PACKAGES = ("torch", "tokenizers", "datasets", "typer", "rich", "numpy", "safetensors", "pydantic")
# A library by tfcli's own extra; of one that has none, by itself.
_EXTRAS = {"tui": ("textual", "tfcli explore"), "tensorboard": ("tensorboard", "--log tensorboard")}
_EXTRAS |= {"wandb": ("wandb", "--log wandb"), "sentencepiece": ("sentencepiece", "importing spiece.model")}
_EXTRAS |= {"": ("transformers", "bench --against transformers")}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_LITTLE = 2e9  # bytes of memory or disk below which something is said
_NVIDIA = Path("/proc/driver/nvidia/version")

Found = TypeVar("Found")


def diagnose(terminal: TerminalFacts) -> Diagnosis:
    """Look at everything. It takes hardly longer than loading PyTorch."""
    torch, broken = _torch()
    versions: dict[str, str | None] = {"tfcli": tfcli.__version__, "Python": platform.python_version()}
    versions |= {name: _version(name) for name in _PACKAGES}
    if torch is not None:
        versions["torch"] = str(torch.__version__)  # with what it was built for
    resource, total = of_unix("resource"), _try(machine.memory, 0)
    limit = max(resource.getrlimit(resource.RLIMIT_AS)[0], 0) or None if resource else None
    found = Diagnosis(
        versions=versions,
        system=platform.platform(),
        processor=Processor(
            name=_try(machine.processor, ""),
            kernels=_try(lambda: str(torch.backends.cpu.get_cpu_capability()), None),
            cores=machine.cores(),
            free_cores=_try(machine.free_cores, machine.cores()),
            quota=_try(machine.quota, None),
            threads=_try(lambda: machine.choose_threads(0, torch.get_num_threads()), None),
            told=next((f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ), None),
        ),
        cuda=_try(lambda: _gpus(torch), ()),
        mps=_try(lambda: torch.backends.mps.is_available(), None),
        memory=Memory(total, _try(machine.free_memory, total), _try(machine.memory_limit, None), process=limit),
        cache=_cache(),
        terminal=terminal,
        extras=tuple(
            Extra(name, _version(name), use, f"pip install '{f'tfcli[{extra}]' if extra else name}'")
            for extra, (name, use) in _EXTRAS.items()
        ),
        advice=(),
    )
    return replace(found, advice=(*broken, *_advice(found)))


def _torch() -> tuple[Any, tuple[Advice, ...]]:
    try:
        import torch

        return torch, ()
    except Exception as error:  # a library that it is built on is missing, say
        return None, (Advice(f"PyTorch cannot be loaded: {first_lines(error)}", "pip install --force-reinstall torch"),)


def _try(ask: Callable[[], Found], otherwise: Found) -> Found:
    """What is asked for; something else where a system, or a PyTorch that is not there, does not tell it."""
    try:
        return ask()
    except Exception:
        return otherwise


def _version(package: str) -> str | None:
    return _try(lambda: version(package), None)


def _gpus(torch: Any) -> tuple[Gpu, ...]:
    devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return tuple(Gpu(one.name, one.total_memory, f"{one.major}.{one.minor}") for one in devices)


def _cache() -> Cache:
    found: list[CacheEntry] = _try(entries, [])
    kinds = [entry.kind for entry in found]
    return Cache(
        place=_try(lambda: str(cache_folder()), None),
        named=next((name for name in ("TFCLI_CACHE", "XDG_CACHE_HOME") if os.environ.get(name)), "~/.cache/tfcli"),
        datasets=kinds.count("dataset"),
        tokenizers=kinds.count("tokenizer"),
        size=sum(entry.size for entry in found),
        disk_free=_try(_disk_free, None),
    )


def _disk_free() -> int:
    place = cache_folder()
    return shutil.disk_usage(next(one for one in (place, *place.parents) if one.exists())).free


def _advice(found: Diagnosis) -> Iterator[Advice]:
    for name, number in found.versions.items():
        if number is None:
            yield Advice(f"{name} is not installed", f"pip install {name}")
    chip, busy = found.processor, found.processor.cores - found.processor.free_cores
    if chip.told and chip.threads not in (None, chip.free_cores):
        asks = f"{chip.told} in the environment asks for {chip.threads}"
        problem = f"{asks}, and {chip.free_cores} of {chip.cores} cores are free"
        yield Advice(problem, f"unset {chip.told.partition('=')[0]}, or --threads {chip.free_cores}")
    elif busy and not chip.told:
        problem = f"{busy} of {chip.cores} cores {'is' if busy == 1 else 'are'} busy with other programs"
        longer = f"a training takes about {chip.cores / chip.free_cores:.1f} times as long"
        yield Advice(f"{problem}: {longer}", "wait for them, or end them")
    if chip.quota and chip.quota < chip.cores:
        problem = f"The container has {chip.quota:g} cores' worth of time, and shows {chip.cores} cores"
        yield Advice(problem, f"--threads {max(1, int(chip.quota))}")
    if chip.kernels == "DEFAULT":
        yield Advice("PyTorch finds neither AVX2 nor AVX-512: it is several times slower", "take another machine")
    if not found.cuda and found.versions["torch"] and (_NVIDIA.exists() or shutil.which("nvidia-smi")):
        problem = f"PyTorch {found.versions['torch']} cannot use the NVIDIA GPU that seems to be here"
        yield Advice(problem, "install one with CUDA: https://pytorch.org/get-started/locally")
    if found.mps:
        yield Advice("Apple's MPS is untried, and the CPU is used", "--device mps tries it")
    if found.memory.free < _LITTLE:
        yield Advice("Less than 2 GB of memory are free", "end other programs, or take --size tiny or mini")
    try:
        require_writable(cache_folder())
    except (TfcliError, OSError):
        yield Advice("The cache cannot be written", "name another folder in TFCLI_CACHE")
    if found.cache.disk_free is not None and found.cache.disk_free < _LITTLE:
        yield Advice("Less than 2 GB are free on the disk of the cache", "tfcli cache prune --older-than 30")
    if "utf" not in found.terminal.encoding.lower():
        yield Advice(f"The terminal writes {found.terminal.encoding}, which lacks most signs", "set PYTHONUTF8=1")
    if found.terminal.is_terminal and found.terminal.columns < 80:
        yield Advice(f"The terminal has {found.terminal.columns} columns, and pictures want 80", "widen it")
