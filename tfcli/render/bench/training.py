"""Measured speed: a row a side, and what it was measured on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.bench import (
    DataSide,
    Difference,
    GenerationSide,
    Machine,
    MatrixPeak,
    Spread,
    TrainingSide,
    TrainingSpeed,
)
from tfcli.render.bars import bar
from tfcli.render.numbers import exact, percent, plural, short
from tfcli.render.safe import printable

BARS_FROM = 104
"""Columns of a terminal in which bars fit beside the figures."""

LONGEST_BAR = 28

AnySide = TrainingSide | GenerationSide | DataSide


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
        none = [""] * len(speed.sides)
        names = [one.name if one.name.endswith(one.precision) else f"{one.name} {one.precision}" for one in speed.sides]
        columns = (
            spreads("ms a step", [side.step_seconds for side in speed.sides]),
            Cells("of peak", [percent(side.peak_share) for side in speed.sides], none),
        )
        yield sides_table(speed.sides, Cells("", names, none), columns, options)
        yield Text()
        for note in _notes(speed):
            yield Text(note, style="dim")


@dataclass(frozen=True)
class Cells:
    """A column: a figure a side, and what stands under it, dim."""

    heading: str
    figures: list[str]
    under: list[str]


def spreads(heading: str, times: Sequence[Spread]) -> Cells:
    """Medians in milliseconds, and under each its 10th and 90th percentile."""
    under = [f"{milliseconds(time.p10)}–{milliseconds(time.p90)}" for time in times]
    return Cells(heading, [milliseconds(time.p50) for time in times], under)


def sides_table(sides: Sequence[AnySide], names: Cells, columns: Iterable[Cells], options: ConsoleOptions) -> Table:
    """A row a side, tfcli's first and bold: its speed, `columns`, memory, the ratio, and a bar where there is room."""
    none, speeds = [""] * len(sides), [side.tokens_per_second for side in sides]
    figures = [names, Cells("tokens/s", [short(speed) for speed in speeds], none), *columns]
    figures.append(Cells("memory", [short(side.memory, "B") for side in sides], none))
    if len(sides) > 1:
        ratios = ["" if side.ratio is None else f"{side.ratio:.2f}×" for side in sides]
        under = ["" if side.ratio is None else f"{side.ratio_p10:.2f}–{side.ratio_p90:.2f}" for side in sides]
        figures.append(Cells("tfcli is", ratios, under))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in figures[1:]:
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_row(*(Text(column.heading, "dim") for column in figures))
    for number, speed in enumerate(speeds):
        row = [Text(column.figures[number], "" if number else "bold") for column in figures]
        if options.max_width >= BARS_FROM:
            drawn = bar(speed / max(speeds), LONGEST_BAR, ascii_only=options.ascii_only)
            row.append(Text(drawn, "blue" if number else "green"))
        table.add_row(*row)
        table.add_row(*(Text(column.under[number], "dim") for column in figures))
    return table


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
