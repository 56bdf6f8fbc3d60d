"""What the doctor finds, a line each; and the same as a block for a bug report."""

import re
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.doctor import Diagnosis, Processor
from tfcli.draw import View
from tfcli.draw.numbers import plural, short
from tfcli.draw.safe import printable
from tfcli.draw.tables import columns

_FOLDERS = re.compile(r"(?:~|[A-Za-z]:)?[/\\](?:[^/\\:'\"]+[/\\])+")


class DoctorView(View[Diagnosis]):
    """Names left, what was found beside them, and below what to do."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = columns("lw")
        for name, facts in _rows(self.record, place=printable(self.record.cache.place or "nobody knows where")):
            table.add_row(Text(name, "bold"), Text(facts))
        yield table
        yield Text()
        for one in self.record.advice:
            remedy = (f"\n  → {printable(one.remedy)}", "dim")
            yield Text.assemble(("! ", "bold yellow"), printable(one.problem), remedy)
        if not self.record.advice:
            yield Text("✓ Nothing is missing, and nothing is slow.", "green")


def bug_report(found: Diagnosis) -> str:
    """In Markdown. Of the cache it has the variable that names it, and of what went wrong no folder."""
    rows = [f"{name:<13}  {facts}" for name, facts in _rows(found, place=found.cache.named)]
    problems = [f"! {_FOLDERS.sub('…/', printable(one.problem))}" for one in found.advice]
    return "\n".join(["```text", *rows, *problems, "```"])


def _rows(found: Diagnosis, place: str) -> Iterator[tuple[str, str]]:
    memory, cache, shown = found.memory, found.cache, found.terminal
    yield "versions", _joined(f"{name} {number or 'missing'}" for name, number in found.versions.items())
    yield "system", printable(found.system)
    yield "processor", _joined([printable(found.processor.name), *found.processor.instruction_sets])
    yield "PyTorch", _joined(_kernels(found.processor))
    yield "cores", _joined(_cores(found.processor))
    gpus = [f"{printable(one.name)}, {_size(one.memory)}, compute {one.compute_capability}" for one in found.cuda]
    yield "devices", _joined(["CPU", *(gpus or ["no CUDA"]), "MPS" if found.mps else "no MPS"])
    limits = [
        f"no more than {_size(limit)} {whose}"
        for limit, whose in ((memory.container, "in this container"), (memory.process, "a process (ulimit -v)"))
        if limit
    ]
    yield "memory", _joined([_size(memory.total), f"{_size(memory.free)} free", *(limits or ["no limit below that"])])
    held = f"{_size(cache.size)} in {plural(cache.datasets, 'dataset')} and {plural(cache.tokenizers, 'tokenizer')}"
    yield "cache", _joined([place, held, *([f"{_size(cache.disk_free)} of disk free"] if cache.disk_free else [])])
    look = f"{shown.colors} colours" if shown.colors != "none" else "no colours"
    where = "a terminal" if shown.is_terminal else "no terminal"
    name = [f"TERM {printable(shown.name)[:40]}"] if shown.name else []
    yield "stdout", _joined([where, f"{shown.columns} × {shown.rows}", look, printable(shown.encoding), *name])
    for one in found.extras:
        yield one.name, f"{one.version} for {one.use}" if one.version else f"not there; for {one.use}: {one.install}"


def _kernels(chip: Processor) -> Iterator[str]:
    if chip.kernels is not None:
        yield f"kernels for {chip.kernels}"
        yield "products in bfloat16" if chip.bfloat16 else "no products in bfloat16"
    if chip.threads is not None:
        yield plural(chip.threads, "thread") + (f" ({printable(chip.told)[:40]})" if chip.told else "")


def _cores(chip: Processor) -> Iterator[str]:
    yield f"{chip.cores}, {chip.free_cores} of them free"
    if chip.quota is not None:
        yield f"{chip.quota:g} cores' worth of time in this container"
    if chip.load:
        yield f"load {' '.join(f'{one:.1f}' for one in chip.load)}"


def _size(size: float) -> str:
    return short(size, "B")


def _joined(facts: Iterable[str]) -> str:
    return " · ".join(facts)
