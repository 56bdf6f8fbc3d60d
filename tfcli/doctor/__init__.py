"""What `tfcli doctor` finds: the versions, the machine and its limits, the cache, the terminal and the extras. Sizes
are in bytes. None: it could not be found out, or there is none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A CUDA device."""

    name: str
    memory: int
    compute_capability: str


@dataclass(frozen=True)
class Processor:
    """What models are computed on where there is no GPU."""

    name: str
    kernels: str | None  # that PyTorch uses
    cores: int  # that this process may use
    free_cores: int  # that nothing else uses
    quota: float | None  # the cores' worth of time that a container has
    threads: int | None  # that a training would take
    told: str | None  # by which variable, where one says how many


@dataclass(frozen=True)
class Memory:
    """`container` and `process` are limits (of the cgroup; of the address space, `ulimit -v`)."""

    total: int
    free: int
    container: int | None
    process: int | None


@dataclass(frozen=True)
class Cache:
    """What is kept of earlier work."""

    place: str | None
    named: str  # the variable, or the default
    datasets: int
    tokenizers: int
    size: int
    disk_free: int | None


@dataclass(frozen=True)
class TerminalFacts:
    """What results are shown in. `colors`: none, standard, 256 or truecolor."""

    columns: int
    rows: int
    colors: str
    encoding: str
    is_terminal: bool
    name: str


@dataclass(frozen=True)
class Extra:
    """A library that is not always there, what it is for, and how it is had."""

    name: str
    version: str | None
    use: str
    install: str


@dataclass(frozen=True)
class Advice:
    """What makes tfcli slow or small here, and what to do about it."""

    problem: str
    remedy: str


@dataclass(frozen=True)
class Diagnosis:
    """All of it. `cuda`: the GPUs that PyTorch can use; `mps`: whether it can use Apple's."""

    versions: dict[str, str | None]
    system: str
    processor: Processor
    cuda: tuple[Gpu, ...]
    mps: bool | None
    memory: Memory
    cache: Cache
    terminal: TerminalFacts
    extras: tuple[Extra, ...]
    advice: tuple[Advice, ...]
