"""Softmax saturation as a table and curves: the scores' variance and the softmax over them, unscaled and scaled."""

import math
import tomllib
from dataclasses import astuple, fields
from importlib.resources import files

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import short
from tfcli.draw.tables import CsvTable, dim, grid, heading
from tfcli.inspection.scaling import ScalingRecord, ScalingRow, SoftmaxState

_WHOLE_FROM = 80  # columns
_STATES = tuple(one.name for one in fields(SoftmaxState))


class ScalingView(View[ScalingRecord]):
    """A table, a curve of the largest weight and one of the gradient, and what to see in them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words, r = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8")), self.record
        yield from heading(words["title"], words["about"].format(**vars(r)))
        yield _table(r, is_narrow=options.max_width < _WHOLE_FROM)
        yield from dim(words["legend"].format(keys=r.keys, entropy=math.log(r.keys)))
        for title, name, top in (("Largest weight", "largest_weight", 1.0), ("Gradient norm", "gradient_norm", None)):
            yield from heading(f"\n{title} by log2 D_k")
            yield _curve(r, name, top)
        about = {"first": r.rows[0], "last": r.rows[-1], "root": r.rows[-1].d_k ** 0.5, "smaller": _smaller(r.rows[-1])}
        yield Text(f"\n{words['see'].format(**about)}")


def scaling_table(record: ScalingRecord) -> CsvTable:
    """A row for each D_k."""
    columns = [f"{side}_{name}" for side in ("unscaled", "scaled") for name in _STATES]
    rows = ([*numbers, *unscaled, *scaled] for *numbers, unscaled, scaled in map(astuple, record.rows))
    return CsvTable(("d_k", "variance", "standard_error", "scaled_variance", *columns), rows)


def _table(r: ScalingRecord, *, is_narrow: bool) -> RichTable:
    digits, table = 2 if is_narrow else 3, grid(">D_k", *[">±"] * (not is_narrow))
    for name in ("var", "max w", "grad", "entr") if is_narrow else ("variance", "largest w", "gradient", "entropy"):
        table.add_column(f"{name}\nu", justify="right", no_wrap=True, style="yellow")
        table.add_column("\ns", justify="right", no_wrap=True, style="cyan")
    for row in r.rows:
        cells = [str(row.d_k), *([] if is_narrow else [f"{row.standard_error:.2g}"])]
        cells += [f"{row.variance:.4g}", f"{row.scaled_variance:.{digits}f}"]
        for name in _STATES:
            cells += [f"{getattr(state, name):.{digits}f}" for state in (row.unscaled, row.scaled)]
        table.add_row(*cells)
    return table


def _curve(r: ScalingRecord, name: str, top: float | None) -> Plot:
    xs = tuple(math.log2(row.d_k) for row in r.rows)
    unscaled, scaled = (
        Series(title, xs, tuple(getattr(getattr(row, side), name) for row in r.rows), color, letter=side[0])
        for side, title, color in (("unscaled", "unscaled", "yellow"), ("scaled", "scaled by 1/√D_k", "cyan"))
    )
    return Plot((unscaled, scaled), "log2 D_k", height=7, y_range=(0.0, top or max(*unscaled.ys, *scaled.ys)))


def _smaller(row: ScalingRow) -> str:
    """The unscaled gradient in words; where float64 has no number small enough for it, it is 0."""
    unscaled, scaled = row.unscaled.gradient_norm, row.scaled.gradient_norm
    if unscaled >= scaled > 0:
        return "no smaller than scaled ones: these are few draws"
    return f"{short(scaled / unscaled)} times smaller than scaled ones" if unscaled else "gone"
