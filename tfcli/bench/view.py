"""Measured speed: a row a side, and what it was measured on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.bench import AnySide, DataSpeed, GenerationSpeed, Machine, ModelSpeed, PatchingSpeed, Spread, TrainingSpeed
from tfcli.draw import View
from tfcli.draw.numbers import exact, percent, plural, short
from tfcli.draw.safe import printable
from tfcli.draw.tables import bar, columns, dim, heading

BARS_FROM, LONGEST_BAR = 104, 28  # columns of a terminal in which bars fit beside the figures; and of a bar


def _picture(title: str, about: Iterable[str], table: Table, notes: Iterable[str]) -> RenderResult:
    """What was measured and on what, a table of the sides, and how it was measured."""
    yield from heading(title, *about)
    yield Text()
    yield table
    yield Text()
    yield from dim(*notes)


def _title(what: str, speed: ModelSpeed) -> str:
    return f"{what} speed" + (f" · {printable(speed.recipe)}" if speed.recipe != speed.architecture else "")


class TrainingSpeedView(View[TrainingSpeed]):
    """A table of the sides, tfcli's first; over it what was trained and on what, under it how it was measured."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed, sides = self.record, self.record.sides
        about = (_shape(speed), _machine(speed.machine), *_peaks(speed))
        names = [one.name if one.name.endswith(one.precision) else f"{one.name} {one.precision}" for one in sides]
        peaks = Cells("of peak", [percent(side.peak_share) for side in sides])
        more = spreads("ms a step", [side.step_seconds for side in sides]), peaks
        table = sides_table(sides, Cells("", names), more, options)
        yield from _picture(_title("Training", speed), about, table, _notes(speed))


@dataclass(frozen=True)
class Cells:
    """A column: a figure a side, and what stands under it, dim."""

    heading: str
    figures: list[str]
    under: list[str] | None = None


def spreads(heading: str, times: Sequence[Spread]) -> Cells:
    """Medians in milliseconds, and under each its 10th and 90th percentile."""
    under = [f"{milliseconds(time.p10)}–{milliseconds(time.p90)}" for time in times]
    return Cells(heading, [milliseconds(time.p50) for time in times], under)


def sides_table(sides: Sequence[AnySide], names: Cells, more: Iterable[Cells], options: ConsoleOptions) -> Table:
    """A row a side, tfcli's first and bold: its speed, `more`, memory, the ratio, and a bar where there is room."""
    speeds = [side.tokens_per_second for side in sides]
    figures = [names, Cells("tokens/s", [short(speed) for speed in speeds]), *more]
    figures.append(Cells("memory", [short(side.memory, "B") for side in sides]))
    if len(sides) > 1:
        ratios = ["" if side.ratio is None else f"{side.ratio:.2f}×" for side in sides]
        under = ["" if side.ratio is None else f"{side.ratio_p10:.2f}–{side.ratio_p90:.2f}" for side in sides]
        figures.append(Cells("tfcli is", ratios, under))
    table = columns("l" + "r" * (len(figures) - 1) + "l", *(column.heading for column in figures))
    for number, speed in enumerate(speeds):
        row = [Text(column.figures[number], "" if number else "bold") for column in figures]
        if options.max_width >= BARS_FROM:
            drawn = bar(speed / max(speeds), LONGEST_BAR, ascii_only=options.ascii_only)
            row.append(Text(drawn, "blue" if number else "green"))
        table.add_row(*row)
        table.add_row(*(Text(column.under[number] if column.under else "", "dim") for column in figures))
    return table


def milliseconds(seconds: float) -> str:
    """Three digits, and all of those before the point.

    >>> milliseconds(1.2345), milliseconds(0.0123)
    ('1,234', '12.3')
    """
    value = seconds * 1e3
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


_SPREAD = "the median, under it the 10th and 90th percentile"


def _turns(work: str, whole: str = "") -> str:
    return f"The sides take turns, {work} each, in processes of their own. Ratios: of medians{whole}; below, of rounds."


def _shape(speed: TrainingSpeed) -> str:
    micro_batches = f"{speed.micro_batches} × " if speed.micro_batches > 1 else ""
    each = f"{'pairs of 2 ×' if speed.architecture == 'encoder-decoder' else 'sequences of'} {speed.length}"
    return f"{_model(speed)} · {micro_batches}{speed.sequences} {each}"


def _model(speed: ModelSpeed) -> str:
    layers, heads = plural(speed.num_layers, "layer"), plural(speed.num_heads, "head")
    return f"{speed.architecture}, {layers} of {speed.d_model}, {heads}, vocabulary {speed.vocab_size:,}"


def _machine(machine: Machine) -> str:
    where = "" if machine.device == "cpu" else f" · {machine.device}"
    cores, threads = plural(machine.cores, "core"), plural(machine.threads, "thread")
    return f"{printable(machine.processor)}{where} · {cores}, {threads} · torch {machine.torch}"


def _peaks(speed: TrainingSpeed) -> Iterator[str]:
    for peak in speed.peaks:
        shape = f"({peak.rows:,} × {peak.inner:,}) ({peak.inner:,} × {peak.columns:,})"
        yield f"peak in {peak.precision}: {short(peak.flops_per_second, 'FLOP/s')}, at {shape}"


def _notes(speed: TrainingSpeed) -> Iterator[str]:
    ours, *others = speed.sides
    yield f"{plural(speed.steps, 'step')} after {speed.warmup} to warm up, on random ids: {_SPREAD}."
    flops = short(speed.flops_per_step, "FLOP")
    yield f"A step is {flops} of matrix products; the share is of the peak in the side's own precision."
    compiled = "translated by torch.compile" if speed.compiled else "not compiled"
    yield f"tfcli: attention {speed.attention}, {compiled}; {exact(ours.parameters)} parameters."
    if not others:
        return
    yield _turns("a step")
    there, count = f"transformers {speed.machine.transformers}", f"{exact(others[0].parameters)} parameters"
    yield f"{there}: {others[0].model}, torch.optim.AdamW, no cache of keys and values, not compiled."
    if speed.differences:
        yield f"Its sizes are the same, and it is another model, of {count}: {_listed(speed)}."
    else:
        yield f"It is the same model, of {count}."


def _listed(speed: TrainingSpeed | GenerationSpeed) -> str:
    return "; ".join(f"{one.setting} {one.theirs} in place of {one.ours}" for one in speed.differences)


class GenerationSpeedView(View[GenerationSpeed]):
    """A table of the sides, tfcli's first; over it what was generated and on what, under it how it was measured."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed, sides = self.record, self.record.sides
        read, weights = short(speed.read_bandwidth, "B/s"), short(speed.weight_bytes, "B")
        bandwidth = f"memory is read at {read} · a token reads {weights} of weights"
        about = (_model(speed), _work(speed), _machine(speed.machine), bandwidth)
        names = Cells("", [side.name for side in sides], [side.precision for side in sides])
        table = sides_table(sides, names, _generation_columns(speed), options)
        yield from _picture(_title("Generation", speed), about, table, _generation_notes(speed))


def _generation_columns(speed: GenerationSpeed) -> Iterator[Cells]:
    """The figures that mean something."""
    yield spreads("prefill ms", [side.prefill_seconds for side in speed.sides])
    if tokens := [side.token_seconds for side in speed.sides if side.token_seconds is not None]:
        yield spreads("ms a token" if speed.batch == 1 else "ms a step", tokens)
    if shares := [side.bandwidth_share for side in speed.sides if side.bandwidth_share is not None]:
        yield Cells("of limit", list(map(percent, shares)))


def _work(speed: GenerationSpeed) -> str:
    unit = "source" if speed.architecture == "encoder-decoder" else "prompt"
    way = "greedy" if speed.beam == 1 else f"{speed.beam} beams"
    return f"{plural(speed.batch, unit)} of {speed.prompt_tokens:.0f} tokens · {speed.new_tokens:,} new each, {way}"


def _generation_notes(speed: GenerationSpeed) -> Iterator[str]:
    ours, *others = speed.sides
    yield f"{plural(speed.rounds, 'round')} after {speed.warmup} to warm up, random weights and ids: {_SPREAD}."
    yield "Tokens a second: over the whole time. Prefill: until the first; after it, the time from one to the next."
    if ours.bandwidth_share is not None:
        yield "The limit is the time in which a token's weights can be read from memory."
    yield f"tfcli: {exact(ours.parameters)} parameters."
    if not others:
        return
    yield _turns("a whole generation", " of the whole time")
    count = f"{exact(others[0].parameters)} parameters"
    yield f"transformers {speed.machine.transformers}: generate of {others[0].model}, {count}."
    if speed.same_ids is not None:
        yield f"The weights are the same; {percent(speed.same_ids)} of the new tokens are."
    elif speed.differences:
        yield f"Its sizes are the same, and it is another model: {_listed(speed)}."


_ABOUT = {"prepare": "tfcli prepare", "encode_batch_fast": "tokenizers alone", "datasets.map": "datasets.map"}


class DataSpeedView(View[DataSpeed]):
    """A table of the sides, tfcli's first; over it what was read and on what, under it how it was measured."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed, sides = self.record, self.record.sides
        text = f"{plural(speed.lines, 'text')}, {short(speed.bytes, 'B')}, {short(speed.tokens)} tokens"
        about = (f"{text} · {speed.algorithm}, vocabulary {speed.vocab_size:,}", _machine(speed.machine))
        figures = Cells("bytes/s", [short(side.bytes_per_second, "B") for side in sides])
        more = figures, spreads("ms in all", [side.seconds for side in sides])
        table = sides_table(sides, Cells("", [_ABOUT[side.name] for side in sides]), more, options)
        yield from _picture(f"Data speed · {printable(', '.join(speed.sources))}", about, table, _data_notes(speed))


def _data_notes(speed: DataSpeed) -> Iterator[str]:
    yield f"{plural(speed.rounds, 'round')} after {speed.warmup} to warm up: {_SPREAD}. {_turns('all the text')}"
    yield "tfcli prepare: reads the text, divides, encodes and counts it, and writes the dataset to the disk."
    yield "tokenizers alone: encode_batch_fast on texts in memory, 1,000 at a time; nothing is read or written."
    if speed.sides[-1].name == "datasets.map":
        there = f"load_dataset, map with the fast tokenizer of transformers {speed.machine.transformers}"
        yield f"datasets.map: {there}, map that cuts batches into windows of {speed.context}; one process."


class PatchingSpeedView(View[PatchingSpeed]):
    """A row of the grid, and one of the naive loop; under them what could be saved at most."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, table = self.record, columns("lrrr", "", "patches/s", "ms in all", "tfcli is")
        under = f"{r.ratio_p10:.2f}–{r.ratio_p90:.2f}"
        for name, time, *ratio in (("tfcli", r.seconds), ("one whole pass a patch", r.naive, f"{r.ratio:.2f}×", under)):
            cells = spreads("", [time])
            table.add_row(name, short(r.patches / time.p50), cells.figures[0], *ratio[:1])
            table.add_row("", "", *(Text(one, "dim") for one in (*(cells.under or ()), *ratio[1:])))
        about = f"{exact(r.patches)} patches between two texts of {r.length} tokens"
        notes = (
            f"{plural(r.rounds, 'round')} after 1 to warm up, random weights and ids: the median, under it the 10th "
            f"and 90th percentile. The two ways are {r.apart:.1g} logits apart.",
            f"Whole passes in large batches, times the share of the weights behind each patch, would be {r.most:.2f}×: "
            f"tfcli has {percent(r.ratio / r.most)} of that.",
        )
        yield from _picture(_title("Patching", r), (_model(r), about, _machine(r.machine)), table, notes)
