"""Held-out accuracy of a linear probe by layer, beside what it must pass: a table and curves."""

from dataclasses import fields

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.safe import printable, shortened
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.inspection.probe import Probe, ProbedLayer

_FIGURES = {"majority": "", "untrained": "magenta", "control": "yellow", "selectivity": "", "accuracy": "bold cyan"}


class ProbeView(View[Probe]):
    """What is not above the majority, the control and the untrained model is dim, and said to be so."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        about = f"{printable(r.source)}: {r.texts:,} texts, {r.held_out} of them held out, with {r.places:,} places"
        classes = f"{len(r.classes)} classes: {printable(', '.join(r.classes))}"
        title = f"Linear probe of {r.task} · {printable(r.run)}"
        yield from heading(title, about, shortened(classes, options.max_width), "")
        table = columns("lrrrrrr", "", *_FIGURES, "95 %")
        for one in r.layers:
            figures = [f"{100 * getattr(one, name):.1f}" for name in _FIGURES]
            cells = one.name, *figures, f"{100 * one.low:.1f} – {100 * one.high:.1f}"
            table.add_row(*(Text(cell, "dim" if "not" in one.verdict else "") for cell in cells))
        yield table
        for verdict in sorted({one.verdict for one in r.layers}):
            yield Text(f"{verdict}: {', '.join(one.name for one in r.layers if one.verdict == verdict)}")
        yield from heading("\nAccuracy, %")
        drawn = {name: [100 * getattr(one, name) for one in r.layers] for name in _FIGURES if name != "selectivity"}
        lines = (Series(name, range(len(ys)), ys, _FIGURES[name], letter=name[0]) for name, ys in drawn.items())
        yield Plot(tuple(lines), "layers behind the embedding", 8)
        yield from dim(
            f"accuracy: of held-out places, in % · control: {r.control} · untrained: the best of three initialisations "
            "of the model, which a fourth passes 1 time in 4 at most · selectivity: accuracy less the control's · not "
            "above: the 95 % interval of the difference (over held-out texts, paired) contains 0; 1 in 40 is chance · "
            "95 %: Wilson's interval of the accuracy"
        )


def probe_table(record: Probe) -> CsvTable:
    """A row a depth."""
    return CsvTable.of(record.layers, *(field.name for field in fields(ProbedLayer)))
