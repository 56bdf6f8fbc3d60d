"""Measured throughput of tokenization: a row a side, and what it was measured on."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.bench import DataSpeed
from tfcli.render.bench.training import Cells, machine_line, sides_table, spreads
from tfcli.render.numbers import plural, short
from tfcli.render.safe import printable

_ABOUT = {
    "prepare": "tfcli prepare",
    "encode_batch_fast": "tokenizers alone",
    "datasets.map": "datasets.map",
}


@dataclass(frozen=True)
class DataSpeedView:
    """A table of the sides, tfcli's first; over it what was read and on what, under it how it was measured."""

    speed: DataSpeed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed = self.speed
        yield Text(f"Data speed · {printable(', '.join(speed.sources))}", style="bold")
        text = f"{plural(speed.lines, 'text')}, {short(speed.bytes, 'B')}, {short(speed.tokens)} tokens"
        for line in (f"{text} · {speed.algorithm}, vocabulary {speed.vocab_size:,}", machine_line(speed.machine)):
            yield Text(line, style="dim")
        yield Text()
        sides, none = speed.sides, [""] * len(speed.sides)
        columns = (
            Cells("bytes/s", [short(side.bytes_per_second, "B") for side in sides], none),
            spreads("ms in all", [side.seconds for side in sides]),
        )
        yield sides_table(sides, Cells("", [_ABOUT[side.name] for side in sides], none), columns, options)
        yield Text()
        for note in _notes(speed):
            yield Text(note, style="dim")


def _notes(speed: DataSpeed) -> Iterator[str]:
    yield (
        f"{plural(speed.rounds, 'round')} after {speed.warmup} to warm up: the median, under it the 10th and 90th "
        "percentile. The sides take turns, all the text each, in processes of their own. A ratio is that of the "
        "medians, and under it are the percentiles of the ratio in each round."
    )
    yield "tfcli prepare: reads the text, divides, encodes and counts it, and writes the dataset to the disk."
    yield "tokenizers alone: encode_batch_fast on texts in memory, 1,000 at a time; nothing is read or written."
    if speed.sides[-1].name == "datasets.map":
        yield (
            f"datasets.map: load_dataset, map with the fast tokenizer of transformers {speed.machine.transformers}, "
            f"map that joins a batch and cuts it into windows of {speed.context}; no validation part, one process."
        )
