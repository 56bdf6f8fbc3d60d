"""Gradient norms by layer on a log scale: variants of one model beside each other."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import plural
from tfcli.draw.tables import CsvTable, dim, grid, heading
from tfcli.inspection.gradients import GradientsRecord, StackGradients

_STYLES = ("cyan", "yellow", "green", "magenta", "red")
_LETTERS = "abcde"
_DECADES = 10  # below the largest norm that a curve shows
_MOST_ROWS = 48


class GradientsView(View[GradientsRecord]):
    """For each stack a curve for every variant and the numbers, then what to see in them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        yield from heading(
            "Gradients by layer",
            f"{r.architecture}, D {r.d_model}, initialized as {r.initialization} · {plural(r.labels, 'label')} in "
            f"{plural(r.sequences, 'sequence')} of {'a text' if r.text else 'random tokens'} · Euclidean norm of "
            "∂loss/∂θ over all parameters θ of a layer",
        )
        for letter, style, profile in zip(_LETTERS, _STYLES, r.profiles, strict=False):
            yield Text.assemble((f"{letter} ", f"bold {style}"), profile.name, (f" · loss {profile.loss:.3f}", "dim"))
        for number, stack in enumerate(r.profiles[0].stacks):
            yield from heading(f"\n{stack.side}: log10 of the norm by layer")
            norms = [profile.stacks[number].parameters for profile in r.profiles]
            floor = max(float(one.max()) for one in norms) * 10.0**-_DECADES
            curves = (
                Series("", range(len(one)), np.log10(np.maximum(one, floor)), style, letter=letter)
                for letter, style, one in zip(_LETTERS, _STYLES, norms, strict=False)
            )
            yield Plot(tuple(curves), "layer", height=10)
            yield _table([profile.stacks[number] for profile in r.profiles])
            if any((one < floor).any() for one in norms):
                low = f"Norms below {_number(floor)} lie on the floor of the plot"
                yield from dim(f"{low}; 0 is less than 64 bits can hold.")
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


def _table(variants: Sequence[StackGradients]) -> Table:
    """A column a variant of one stack."""
    table = grid(">layer")
    for letter, style, _ in zip(_LETTERS, _STYLES, variants, strict=False):
        table.add_column(letter, justify="right", no_wrap=True, style=style)
    layers = len(variants[0].parameters)
    for layer in range(0, layers, -(-layers // _MOST_ROWS)):
        table.add_row(str(layer), *(_number(float(one.parameters[layer])) for one in variants))
    table.add_section()
    table.add_row("spread", *(_number(_spread(one.parameters)) for one in variants))
    table.add_row("of ∂x", *(_number(_spread(one.inputs)) for one in variants))
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
    lost, kept = (
        ", ".join(f"{_number(_spread(p.stacks[-1].parameters))} ({p.name})" for p in r.profiles if p.residuals is has)
        for has in (False, True)
    )
    pre, post = (
        next(one for one in r.profiles if one.placement == placement and one.residuals and not one.trained)
        for placement in ("pre", "post")
    )
    first, final = (float(post.stacks[-1].parameters[at] / pre.stacks[-1].parameters[at]) for at in (0, -1))
    return (
        "See: spread is the largest layer's norm over the smallest's, and of ∂x the same for what enters a layer. With "
        f"residuals {kept}: gradients reach every layer. Without them {lost}: what each layer "
        "makes of a gradient multiplies, and norms may keep it from vanishing but do not keep its size. At "
        f"initialization a post-norm's gradient is {_number(first)} times the pre-norm's in the first layer, and "
        f"{_number(final)} times in the last."
    )
