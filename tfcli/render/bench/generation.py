"""Measured speed of generation: a row a side, and what it was measured on."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.bench import GenerationSide, GenerationSpeed, Spread
from tfcli.render.bars import bar
from tfcli.render.bench.training import BARS_FROM, LONGEST_BAR, listed, machine_line, milliseconds
from tfcli.render.numbers import exact, percent, plural, short
from tfcli.render.safe import printable


@dataclass(frozen=True)
class GenerationSpeedView:
    """A table of the sides, tfcli's first; over it what was generated and on what, under it how it was measured."""

    speed: GenerationSpeed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed = self.speed
        name = f" · {printable(speed.recipe)}" if speed.recipe != speed.architecture else ""
        yield Text(f"Generation speed{name}", style="bold")
        for line in (_shape(speed), _work(speed), machine_line(speed.machine), _bandwidth(speed)):
            yield Text(line, style="dim")
        yield Text()
        yield _table(speed, with_bars=options.max_width >= BARS_FROM, ascii_only=options.ascii_only)
        yield Text()
        for note in _notes(speed):
            yield Text(note, style="dim")


def _table(speed: GenerationSpeed, *, with_bars: bool, ascii_only: bool) -> Table:
    """Under a side its precision, and under a figure that varies its 10th and 90th percentile. A column that means
    nothing here is left out."""
    columns = [_Cells("tokens/s", [short(side.tokens_per_second) for side in speed.sides])]
    columns += _times(speed)
    shares = [side.bandwidth_share for side in speed.sides]
    if None not in shares:
        columns.append(_Cells("of limit", ["" if share is None else percent(share) for share in shares]))
    columns.append(_Cells("memory", [short(side.memory, "B") for side in speed.sides]))
    if len(speed.sides) > 1:
        columns.append(
            _Cells("tfcli is", [_ratio(side) for side in speed.sides], [_ratios(side) for side in speed.sides])
        )
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in columns:
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_row("", *(Text(column.heading, "dim") for column in columns))
    fastest = max(side.tokens_per_second for side in speed.sides)
    for number, side in enumerate(speed.sides):
        ours = side.ratio is None
        style = "bold" if ours else ""
        row = [Text(side.name, style), *(Text(column.figures[number], style) for column in columns)]
        if with_bars:
            length = side.tokens_per_second / fastest
            row.append(Text(bar(length, LONGEST_BAR, ascii_only=ascii_only), "green" if ours else "blue"))
        table.add_row(*row)
        under = [side.precision, *(column.under[number] if column.under else "" for column in columns)]
        table.add_row(*(Text(cell, "dim") for cell in under))
    return table


@dataclass(frozen=True)
class _Cells:
    """A column: a figure a side, and what stands under it."""

    heading: str
    figures: list[str]
    under: list[str] | None = None


def _times(speed: GenerationSpeed) -> Iterator[_Cells]:
    """The times that mean something: of prompts the prefill and a token, of a corpus the whole."""
    if speed.sentences:
        yield _spreads("ms in all", [side.seconds for side in speed.sides])
        return
    for heading, times in (
        ("prefill ms", [side.prefill_seconds for side in speed.sides]),
        ("ms a token" if speed.batch == 1 else "ms a step", [side.token_seconds for side in speed.sides]),
    ):
        known = [time for time in times if time is not None]
        if len(known) == len(times):
            yield _spreads(heading, known)


def _spreads(heading: str, times: list[Spread]) -> _Cells:
    under = [f"{milliseconds(time.p10)}–{milliseconds(time.p90)}" for time in times]
    return _Cells(heading, [milliseconds(time.p50) for time in times], under)


def _ratio(side: GenerationSide) -> str:
    return "" if side.ratio is None else f"{side.ratio:.2f}×"


def _ratios(side: GenerationSide) -> str:
    return "" if side.ratio is None else f"{side.ratio_p10:.2f}–{side.ratio_p90:.2f}"


def _shape(speed: GenerationSpeed) -> str:
    return (
        f"{speed.architecture}, {plural(speed.num_layers, 'layer')} of {speed.d_model}, "
        f"{plural(speed.num_heads, 'head')}, vocabulary {speed.vocab_size:,}"
    )


def _work(speed: GenerationSpeed) -> str:
    unit = "source" if speed.architecture == "encoder-decoder" else "prompt"
    if speed.sentences:
        what = (
            f"{plural(speed.sentences, 'source')} of {speed.prompt_tokens:.1f} tokens (mean), {speed.batch} at a time"
        )
    else:
        what = f"{plural(speed.batch, unit)} of {speed.prompt_tokens:.0f} tokens"
    way = "greedy" if speed.beam == 1 else f"{speed.beam} beams"
    return f"{what} · {speed.new_tokens:,} new each, {way}"


def _bandwidth(speed: GenerationSpeed) -> str:
    speed_of_memory, weights = short(speed.read_bandwidth, "B/s"), short(speed.weight_bytes, "B")
    return f"memory is read at {speed_of_memory} · a token reads {weights} of weights"


def _notes(speed: GenerationSpeed) -> Iterator[str]:
    ours, *others = speed.sides
    yield (
        f"{plural(speed.rounds, 'round')} after {speed.warmup} to warm up, random weights and ids: the median, under "
        "it the 10th and 90th percentile. Tokens a second are over the whole time."
    )
    if not speed.sentences:
        yield "Prefill: until the first new token; after it, the time from one to the next."
    if ours.bandwidth_share is not None:
        yield "The limit is the time in which a token's weights can be read from memory."
    yield f"tfcli: {exact(ours.parameters)} parameters."
    if not others:
        return
    yield (
        "The sides take turns, a whole generation each, in processes of their own. A ratio is that of the medians of "
        "the whole time, and under it are the percentiles of the ratio in each round."
    )
    count = f"{exact(others[0].parameters)} parameters"
    yield f"transformers {speed.machine.transformers}: generate of {others[0].model}, {count}."
    if speed.same_ids is not None:
        yield f"The weights are the same; {percent(speed.same_ids)} of the new tokens are."
    elif speed.differences:
        yield f"Its sizes are the same, and it is another model: {listed(speed.differences)}."
