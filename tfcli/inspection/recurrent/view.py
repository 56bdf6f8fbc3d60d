"""Attention in RNNs beside the transformer's: losses, times, gradients over distance, and alignments."""

import tomllib
from importlib.resources import files

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.inspection.attention.matrix_view import weights_matrix
from tfcli.inspection.recurrent import RecurrentRecord


class RecurrentView(View[RecurrentRecord]):
    """What was measured of the three, and where two of them look."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, curves, kept = self.record, list[Series](), list[float]()
        words = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
        yield from heading(words["title"], words["about"].format(**vars(r)))
        table = columns("lrrrr", "model", "parameters", "loss", "95 %", "ms")
        for letter, style, one in zip("abc", ("yellow", "cyan", "magenta"), r.models, strict=True):
            distances, gradient = np.array(one.gradient).T
            curves.append(Series(one.name, distances, np.log10(gradient), style, letter=letter))
            kept.append(gradient[-4:].mean() / gradient[:4].mean())
            between = "–".join(f"{end:.3f}" for end in one.interval or ())
            figures = f"{one.parameters:,}", f"{one.loss:.3f}", between, f"{1e3 * one.step_seconds:.0f}"
            table.add_row(Text.assemble((f"{letter} ", f"bold {style}"), one.name), *figures)
        yield from (Text(), table, Text())
        yield from dim(*words["formulas"])
        yield from heading(f"\n{words['gradient']}")
        yield Plot(tuple(curves), words["distance"], height=9)
        for one in r.models:
            if one.alignment is not None:
                yield from heading(f"\n{one.name}")
                yield weights_matrix(one.alignment)
        yield Text(f"\n{words['see'].format(kept=kept, models=r.models)}")


def recurrent_table(record: RecurrentRecord) -> CsvTable:
    """A row a model and distance."""
    rows: list[tuple[object, ...]] = []
    for one in record.models:
        figures = one.name, one.parameters, one.loss, *(one.interval or ("", "")), one.step_seconds
        rows += [(*figures, *point) for point in one.gradient]
    heads = "model", "parameters", "loss", "loss_from", "loss_to", "step_seconds", "distance", "gradient"
    return CsvTable(heads, rows)
