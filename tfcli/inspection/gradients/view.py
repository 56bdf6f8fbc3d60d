"""Gradient norms by layer on a log scale, and how unlike the tokens are: variants of one model beside each other."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import plural
from tfcli.draw.tables import CsvTable, dim, grid, heading
from tfcli.inspection.gradients import GradientProfile, GradientsRecord

_STYLES = ("cyan", "yellow", "green", "magenta", "red", "blue")
_LETTERS = "abcdef"
_DECADES = 10  # below the largest norm that a curve shows
_MOST_ROWS = 48
_ALIKE = 0.01
_ROUNDING = "rounding"


class GradientsView(View[GradientsRecord]):
    """For each stack a curve for every variant, the numbers, and what they say."""

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
        for number in range(len(r.profiles[0].stacks)):
            yield from _stack(r.profiles, number)
        yield from dim(
            f"\n{_ROUNDING}: below what 64 bits can tell; changes with the last bits of the weights and counts nowhere",
            "spread: the largest layer's norm over the smallest's · of ∂x: by what enters a layer",
            "own share: of what leaves a layer, 0 where all tokens have one vector (Dong et al. 2021)",
            "σ: mean over tokens; of a gradient a norm removes the parts along 1 and x̂, and divides the rest by σ (Xu "
            "et al. 2019)",
        )


def gradients_table(record: GradientsRecord) -> CsvTable:
    """A row for each variant, stack and layer; empty where a value is below rounding."""
    rows = [
        [profile.name, stack.side, layer, *(None if math.isnan(value) else float(value) for value in values)]
        for profile in record.profiles
        for stack in profile.stacks
        for layer, values in enumerate(zip(stack.parameters, stack.inputs, stack.apart, strict=True))
    ]
    return CsvTable(("variant", "stack", "layer", "parameters", "input", "apart"), rows)


def _stack(profiles: Sequence[GradientProfile], number: int) -> Iterator[Text | Plot | Table | Columns]:
    stacks = [profile.stacks[number] for profile in profiles]
    side, norms = stacks[0].side, [one.parameters for one in stacks]
    yield from heading(f"\n{side}: log10 of the norm by layer")
    floor = float(np.fmax.reduce(np.ravel(norms))) * 10.0**-_DECADES
    curves = (
        Series("", range(len(one)), np.log10(np.maximum(one, floor)), style, letter=letter)
        for letter, style, one in zip(_LETTERS, _STYLES, norms, strict=False)
    )
    yield Plot(tuple(curves), "layer", height=10)
    table = _table("∂loss/∂θ", norms)
    table.add_section()
    table.add_row("spread", *(_number(_spread(one), "–") for one in norms))
    table.add_row("of ∂x", *(_number(_spread(one.inputs), "–") for one in stacks))
    own = _table("a token's own share, ‖X − 1x̄ᵀ‖ / ‖X‖", [one.apart for one in stacks])
    yield Columns([table, own], padding=(0, 4))
    if any((one < floor).any() for one in norms):
        yield from dim(f"Norms below {_number(floor)} lie on the floor of the plot.")
    yield from heading(f"{side}: a gradient on its way back through the norm of self-attention")
    yield _backward(profiles, number)
    yield Text("\n".join((f"In the {side}:", *_see(profiles, number))))


def _table(name: str, variants: Sequence[NDArray[np.float64]]) -> Table:
    """A column a variant, a row a layer."""
    table, layers = grid(">layer"), len(variants[0])
    table.title, table.title_justify, table.title_style = name, "left", "dim"
    for letter, style, _ in zip(_LETTERS, _STYLES, variants, strict=False):
        table.add_column(letter, justify="right", no_wrap=True, style=style)
    for layer in range(0, layers, -(-layers // _MOST_ROWS)):
        table.add_row(str(layer), *(_number(float(one[layer])) for one in variants))
    return table


def _backward(profiles: Sequence[GradientProfile], number: int) -> Table:
    """The first and the last layer of the variants with residuals."""
    table = grid("", ">layer", ">enters", ">along 1", ">along x̂", ">σ", ">leaves")
    for letter, style, profile in zip(_LETTERS, _STYLES, profiles, strict=False):
        norms = profile.stacks[number].norms
        for layer in (0, -1) if norms is not None and profile.residuals else ():
            assert norms is not None
            shares = (f"{one[layer]:.1%}".replace("nan%", _ROUNDING) for one in (norms.along_ones, norms.along_output))
            ends = (_number(float(one[layer])) for one in (norms.entering, norms.deviation, norms.leaving))
            table.add_row(Text(letter, style), str(layer % len(norms.entering)), next(ends), *shares, *ends)
    return table


def _spread(norms: NDArray[np.float64]) -> float:
    """The largest norm of a layer over the smallest, of those above rounding; NaN for fewer than two."""
    known = norms[~np.isnan(norms)]
    return float(known.max() / known.min()) if len(known) > 1 else math.nan


def _number(value: float, unknown: str = _ROUNDING) -> str:
    """Three digits; powers of ten where it is small or large.

    >>> _number(0.5312), _number(416.4), _number(1800), _number(2.04e-93), _number(float("nan"))
    ('0.531', '416', '1,800', '2.0e-93', 'rounding')
    """
    if math.isnan(value):
        return unknown
    if 999.5 <= value < 1e6:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= value < 1e6 else f"{value:.1e}"


def _see(profiles: Sequence[GradientProfile], number: int) -> Iterator[str]:
    """What the numbers of one stack say, and nothing of another's."""
    for letter, profile in zip(_LETTERS, profiles, strict=False):
        norms, apart = (getattr(profile.stacks[number], name) for name in ("parameters", "apart"))
        said = f"the last layer's gradient is {_number(float(norms[-1] / norms[0]))} times the first's"
        if unknown := int(np.isnan(norms).sum()):
            said = f"the gradients of {unknown} of {plural(len(norms), 'layer')} are below rounding and tell nothing"
        if len(alike := np.flatnonzero(~(apart >= _ALIKE))):
            said += f"; from layer {alike[0]} on less than {_ALIKE:.0%} of a vector is its token's own: rank collapse"
        yield f"{letter} {profile.name}: {said}."
    pre, post = (
        next(_spread(one.stacks[number].parameters) for one in profiles if not one.trained and one.placement == place)
        for place in ("pre", "post")
    )
    if not math.isnan(pre * post):
        larger, smaller = ("post", "pre") if post > pre else ("pre", "post")
        ratio = _number(max(pre, post) / min(pre, post))
        yield f"Before training, {larger}-norm's gradients are spread {ratio} times as far as {smaller}-norm's."
