"""Measured speed of generation: a row a side, and what it was measured on."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.bench import GenerationSpeed
from tfcli.render.bench.training import Cells, listed, machine_line, sides_table, spreads
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
        names = Cells("", [side.name for side in speed.sides], [side.precision for side in speed.sides])
        yield sides_table(speed.sides, names, _columns(speed), options)
        yield Text()
        for note in _notes(speed):
            yield Text(note, style="dim")


def _columns(speed: GenerationSpeed) -> Iterator[Cells]:
    """The figures that mean something: of prompts the prefill and a token, of a corpus the whole."""
    sides = speed.sides
    if speed.sentences:
        yield spreads("ms in all", [side.seconds for side in sides])
    else:
        for heading, times in (
            ("prefill ms", [side.prefill_seconds for side in sides]),
            ("ms a token" if speed.batch == 1 else "ms a step", [side.token_seconds for side in sides]),
        ):
            known = [time for time in times if time is not None]
            if len(known) == len(times):
                yield spreads(heading, known)
    shares = [side.bandwidth_share for side in sides]
    if None not in shares:
        yield Cells("of limit", ["" if share is None else percent(share) for share in shares], [""] * len(shares))


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
