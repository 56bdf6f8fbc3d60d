"""Evolution as curves over the steps of a training, with the loss on the same axis below."""

from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import exact, plural
from tfcli.draw.safe import printable, token_label
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.runs.curves_view import CURVES

_STYLES = ("cyan", "yellow", "magenta", "green", "red", "blue")
_GUTTER = 7


class EvolutionView(View[Evolution]):
    """The parts that reach farthest from 0 as curves, the loss under them, and the figures of all."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        about = f"{plural(len(r.steps), 'checkpoint')}, measured on {printable(r.measured_on)}"
        yield from heading(f"Evolution · {self._label(r.what)}", f"{printable(r.run)} · {about}")
        ranked = sorted((part for part in r.parts if part.largest), key=lambda part: -part.largest)
        x_range = (0.0, float(max(r.steps[-1], *(step for step, _ in (*r.training, *r.validation, (0, 0))))))
        drawn = list(zip(ranked, _STYLES, strict=False))
        curves = [
            Series(self._label(part.name), r.steps, part.told(), style, letter=chr(ord("a") + number))
            for number, (part, style) in enumerate(drawn)
        ]
        if curves and r.chance is not None:
            curves.insert(0, Series("chance", x_range, (r.chance, r.chance), "dim"))
        yield Plot(tuple(curves), "step", 10, x_range, gutter=_GUTTER)
        losses = [
            Series(name, [step for step, _ in of], [loss for _, loss in of], *CURVES[name])
            for name, of in (("training loss", r.training), ("validation loss", r.validation))
        ]
        yield from heading(f"\nLoss, {r.loss_unit}")
        yield Plot(tuple(losses), "step", 6, x_range, gutter=_GUTTER)
        table = columns("lrrrrw", "\n", "\nfirst", "\nlast", "\nfarthest", "\nat step", "\n")
        for part in ranked:
            values = part.told()
            far = max(range(len(values)), key=lambda at: abs(values[at] or 0.0))
            figures = (_figure(value) for value in (values[0], values[-1], values[far]))
            table.add_row(self._label(part.name), *figures, exact(r.steps[far]), Text(_changes(part, r.steps), "dim"))
        yield table
        rest = [
            self._label(part.name) for part in r.parts if not part.largest and any(v is not None for v in part.values)
        ]
        if rest:
            yield from dim(f"at no checkpoint to be told from 0: {', '.join(rest)}")
        if any(map(any, (part.intervals for part in r.parts))):
            yield from dim("0 where the 95 % interval over documents contains it; by chance 1 in 20 would not")
        elif any(part.intervals for part in r.parts):
            yield from dim("too few documents for an interval")

    def _label(self, name: str) -> str:
        """With the tokens that it quotes as pictures write them."""
        for token in self.record.tokens:
            name = name.replace(repr(token), token_label(token))
        return printable(name)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _changes(part: Evolved, steps: tuple[int, ...]) -> str:
    runs = groupby(zip(part.said, steps, strict=False), key=lambda one: one[0])
    return " → ".join(f"{said} from {exact(next(of)[1])}" for said, of in runs)


def evolution_table(record: Evolution) -> CsvTable:
    """A row a checkpoint and part."""
    rows = (
        (
            step,
            part.name,
            part.values[at],
            *((part.intervals and part.intervals[at]) or (None, None)),
            *part.said[at : at + 1],
        )
        for part in record.parts
        for at, step in enumerate(record.steps)
    )
    said = ["said"] * any(part.said for part in record.parts)
    return CsvTable(["step", "part", "value", "low", "high", *said], rows)
