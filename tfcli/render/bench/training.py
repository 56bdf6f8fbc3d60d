"""Measured speed: a row a side, and what it was measured on."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.bench import Difference, Machine, MatrixPeak, TrainingSide, TrainingSpeed
from tfcli.render.bars import bar
from tfcli.render.numbers import exact, percent, plural, short
from tfcli.render.safe import printable

BARS_FROM = 104
"""Columns of a terminal in which bars fit beside the figures."""

LONGEST_BAR = 28


@dataclass(frozen=True)
class TrainingSpeedView:
    """A table of the sides, tfcli's first; over it what was trained and on what, under it how it was measured."""

    speed: TrainingSpeed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed = self.speed
        name = f" · {printable(speed.recipe)}" if speed.recipe != speed.architecture else ""
        yield Text(f"Training speed{name}", style="bold")
        for line in (_shape(speed), machine_line(speed.machine), *map(_peak, speed.peaks)):
            yield Text(line, style="dim")
        yield Text()
        yield _table(speed, with_bars=options.max_width >= BARS_FROM, ascii_only=options.ascii_only)
        yield Text()
        for note in _notes(speed):
            yield Text(note, style="dim")


def _table(speed: TrainingSpeed, *, with_bars: bool, ascii_only: bool) -> Table:
    """Under a figure that varies, dim, its 10th and 90th percentile."""
    against = len(speed.sides) > 1
    names = ["tokens/s", "ms a step", "of peak", "memory", *(["tfcli is"] if against else [])]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in names:
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_row("", *(Text(name, "dim") for name in names))
    fastest = max(side.tokens_per_second for side in speed.sides)
    for side in speed.sides:
        ours = side.ratio is None
        taken = side.step_seconds
        figures = [short(side.tokens_per_second), milliseconds(taken.p50)]
        figures += [percent(side.peak_share), short(side.memory, "B")]
        row = [Text(cell, "bold" if ours else "") for cell in (_name(side), *figures)]
        under = ["", "", f"{milliseconds(taken.p10)}–{milliseconds(taken.p90)}", "", ""]
        if against:
            row.append(Text("" if side.ratio is None else f"{side.ratio:.2f}×", "bold"))
            under.append("" if side.ratio is None else f"{side.ratio_p10:.2f}–{side.ratio_p90:.2f}")
        if with_bars:
            length = side.tokens_per_second / fastest
            row.append(Text(bar(length, LONGEST_BAR, ascii_only=ascii_only), "green" if ours else "blue"))
        table.add_row(*row)
        table.add_row(*(Text(cell, "dim") for cell in under))
    return table


def _name(side: TrainingSide) -> str:
    return side.name if side.name.endswith(side.precision) else f"{side.name} {side.precision}"


def milliseconds(seconds: float) -> str:
    """Three digits, and all of those before the point.

    >>> milliseconds(1.2345), milliseconds(0.0123)
    ('1,234', '12.3')
    """
    value = seconds * 1e3
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}"


def _shape(speed: TrainingSpeed) -> str:
    micro_batches = f"{speed.micro_batches} × " if speed.micro_batches > 1 else ""
    unit = "pairs of 2" if speed.architecture == "encoder-decoder" else "sequences of"
    times = " × " if speed.architecture == "encoder-decoder" else " "
    return (
        f"{speed.architecture}, {plural(speed.num_layers, 'layer')} of {speed.d_model}, "
        f"{plural(speed.num_heads, 'head')}, vocabulary {speed.vocab_size:,} · "
        f"{micro_batches}{speed.sequences} {unit}{times}{speed.length}"
    )


def machine_line(machine: Machine) -> str:
    """Where it was measured."""
    where = "" if machine.device == "cpu" else f" · {machine.device}"
    cores, threads = plural(machine.cores, "core"), plural(machine.threads, "thread")
    return f"{printable(machine.processor)}{where} · {cores}, {threads} · torch {machine.torch}"


def _peak(peak: MatrixPeak) -> str:
    shape = f"({peak.rows:,} × {peak.inner:,}) ({peak.inner:,} × {peak.columns:,})"
    return f"peak in {peak.precision}: {short(peak.flops_per_second, 'FLOP/s')}, at {shape}"


def _notes(speed: TrainingSpeed) -> Iterator[str]:
    ours, *others = speed.sides
    yield (
        f"{plural(speed.steps, 'step')} after {speed.warmup} to warm up, on random ids: the median, under it the 10th "
        f"and 90th percentile. A step is {short(speed.flops_per_step, 'FLOP')} of matrix products; the share is of the "
        "peak in the side's own precision."
    )
    compiled = "translated by torch.compile" if speed.compiled else "not compiled"
    yield f"tfcli: attention {speed.attention}, {compiled}; {exact(ours.parameters)} parameters."
    if not others:
        return
    yield (
        "The sides take turns, a step each, in processes of their own. A ratio is that of the medians, and under it "
        "are the percentiles of the ratio in each round."
    )
    yield (
        f"transformers {speed.machine.transformers}: {others[0].model}, torch.optim.AdamW, no cache of keys and "
        "values, not compiled."
    )
    count = f"{exact(others[0].parameters)} parameters"
    if speed.differences:
        yield f"Its sizes are the same, and it is another model, of {count}: {listed(speed.differences)}."
    else:
        yield f"It is the same model, of {count}."


def listed(differences: tuple[Difference, ...]) -> str:
    """How the compared model differs."""
    return "; ".join(f"{one.setting} {one.theirs} in place of {one.ours}" for one in differences)
