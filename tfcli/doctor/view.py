"""What the doctor finds, a line each; and the same as a block for a bug report."""

import re
from collections.abc import Iterator
from functools import partial

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.doctor import Diagnosis
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
    chip, memory, cache, shown = found.processor, found.memory, found.cache, found.terminal
    yield "versions", _joined(*(f"{name} {number or 'missing'}" for name, number in found.versions.items()))
    yield "system", printable(found.system)
    kernels = chip.kernels and f"kernels for {chip.kernels}"
    threads = chip.threads and plural(chip.threads, "thread") + (f" ({printable(chip.told)[:40]})" if chip.told else "")
    cores = f"{plural(chip.cores, 'core')}, {chip.free_cores} of them free"
    yield "processor", _joined(printable(chip.name), kernels, cores, threads)
    gpus = [f"{printable(one.name)}, {_size(one.memory)}, compute {one.compute_capability}" for one in found.cuda]
    yield "devices", _joined("CPU", *(gpus or ["no CUDA"]), "MPS" if found.mps else "no MPS")
    limits = ((memory.container, "in this container"), (memory.process, "a process (ulimit -v)"))
    below = [f"no more than {_size(limit)} {whose}" for limit, whose in limits if limit] or ["no limit below that"]
    yield "memory", _joined(_size(memory.total), f"{_size(memory.free)} free", *below)
    held = f"{_size(cache.size)} in {plural(cache.datasets, 'dataset')} and {plural(cache.tokenizers, 'tokenizer')}"
    yield "cache", _joined(place, held, cache.disk_free and f"{_size(cache.disk_free)} of disk free")
    look = f"{shown.colors} colours" if shown.colors != "none" else "no colours"
    where = f"{'a' if shown.is_terminal else 'no'} terminal"
    name = shown.name and f"TERM {printable(shown.name)[:40]}"
    yield "stdout", _joined(where, f"{shown.columns} × {shown.rows}", look, printable(shown.encoding), name)
    for one in found.extras:
        yield one.name, f"{one.version} for {one.use}" if one.version else f"not there; for {one.use}: {one.install}"


_size = partial(short, unit="B")


def _joined(*facts: str | int | None) -> str:
    return " · ".join(str(fact) for fact in facts if fact)
