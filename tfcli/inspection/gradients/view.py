"""Gradient norms by layer on a log scale: variants of one model beside each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import plural
from tfcli.draw.tables import CsvTable, grid
from tfcli.inspection.gradients import GradientProfile, GradientsRecord

_STYLES = ("cyan", "yellow", "green", "magenta", "red")
_LETTERS = "abcde"
_DECADES = 10  # below the largest norm that a curve shows
_MOST_ROWS = 48


@dataclass(frozen=True)
class GradientsView:
    """For each stack a curve for every variant and the numbers, then what to see in them."""

    record: GradientsRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        yield Text("Gradients by layer", style="bold")
        what = "a text" if r.text else "random tokens"
        yield Text(
            f"{r.architecture}, D {r.d_model}, initialized as {r.initialization} · {plural(r.labels, 'label')} in "
            f"{plural(r.sequences, 'sequence')} of {what} · Euclidean norm of ∂loss/∂θ over all parameters θ of a "
            "layer",
            style="dim",
        )
        for letter, style, profile in zip(_LETTERS, _STYLES, r.profiles, strict=False):
            yield Text.assemble((f"{letter} ", f"bold {style}"), profile.name, (f" · loss {profile.loss:.3f}", "dim"))
        for number, stack in enumerate(r.profiles[0].stacks):
            yield Text()
            yield Text(f"{stack.side}: log10 of the norm by layer", style="bold")
            norms = [profile.stacks[number].parameters for profile in r.profiles]
            floor = max(float(one.max()) for one in norms) * 10.0**-_DECADES
            yield _curves(norms, floor)
            yield _table(r.profiles, number)
            if any((one < floor).any() for one in norms):
                below = f"Norms below {_number(floor)} lie on the floor of the plot; 0 is less than 64 bits can hold."
                yield Text(below, style="dim")
        yield Text(_see(r))


def gradients_table(record: GradientsRecord) -> CsvTable:
    """A row for each variant, stack and layer."""
    rows = [
        [profile.name, stack.side, layer, float(stack.parameters[layer]), float(stack.inputs[layer])]
        for profile in record.profiles
        for stack in profile.stacks
        for layer in range(len(stack.parameters))
    ]
    return CsvTable(("variant", "stack", "layer", "parameters", "input"), rows)


def _curves(norms: Sequence[NDArray[np.float64]], floor: float) -> Plot:
    """What vanishes further than ten decades below the largest lies on the floor."""
    series = tuple(
        Series("", tuple(map(float, range(len(one)))), tuple(np.log10(np.maximum(one, floor))), style, letter=letter)
        for letter, style, one in zip(_LETTERS, _STYLES, norms, strict=False)
    )
    return Plot(series, "layer", height=10)


def _table(profiles: Sequence[GradientProfile], stack: int) -> RichTable:
    table = grid(">layer")
    for letter, style in zip(_LETTERS, _STYLES[: len(profiles)], strict=False):
        table.add_column(letter, justify="right", no_wrap=True, style=style)
    layers = len(profiles[0].stacks[stack].parameters)
    step = -(-layers // _MOST_ROWS)
    for layer in range(0, layers, step):
        table.add_row(str(layer), *(_number(float(one.stacks[stack].parameters[layer])) for one in profiles))
    table.add_section()
    table.add_row("spread", *(_number(_spread(one.stacks[stack].parameters)) for one in profiles))
    table.add_row("of ∂x", *(_number(_spread(one.stacks[stack].inputs)) for one in profiles))
    return table


def _spread(norms: NDArray[np.float64]) -> float:
    """The largest norm of a layer over the smallest; infinity where that is 0."""
    return float(norms.max() / norms.min()) if norms.min() > 0 else math.inf


def _number(value: float) -> str:
    """Three digits; powers of ten where it is small or large.

    >>> _number(0.0), _number(0.5312), _number(416.4), _number(1800), _number(2.04e-93)
    ('0', '0.531', '416', '1,800', '2.0e-93')
    """
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "∞"
    if 999.5 <= value < 1e6:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= value < 1e6 else f"{value:.1e}"


def _see(r: GradientsRecord) -> str:
    """In words, of the stack that the head reads."""
    last = len(r.profiles[0].stacks) - 1
    lost, kept = (
        ", ".join(f"{_number(_spread(p.stacks[last].parameters))} ({p.name})" for p in r.profiles if p.residuals is has)
        for has in (False, True)
    )
    pre, post = (
        next(one for one in r.profiles if one.placement == placement and one.residuals and not one.trained)
        for placement in ("pre", "post")
    )
    first, final = (float(post.stacks[last].parameters[at] / pre.stacks[last].parameters[at]) for at in (0, -1))
    return (
        "See: spread is the largest layer's norm over the smallest's, and of ∂x the same for what enters a layer. With "
        f"residuals {kept}: gradients reach every layer. Without them {lost}: what each layer "
        "makes of a gradient multiplies, and norms may keep it from vanishing but do not keep its size. At "
        f"initialization a post-norm's gradient is {_number(first)} times the pre-norm's in the first layer, and "
        f"{_number(final)} times in the last."
    )
