"""Circuits as tables: the figures of heads or a neuron, then what each composes with, seeks, writes or fires on."""

import tomllib
from importlib.resources import files

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.safe import printable, token_label
from tfcli.draw.tables import CsvTable, columns, dim, grid, heading
from tfcli.inspection.circuits import Circuit, Circuits

_MOST = 6  # numbers of a head or token, the largest


class CircuitsView(View[Circuits]):
    """Figures, then what stands out of those between two, and what was left out."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, words = self.record, tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
        yield from heading(f"Circuits of {r.of} · {printable(r.run)}", *filter(None, [printable(r.measured_on)]))
        kinds = {by: [one for one in r.rows if one.by == by] for by in dict.fromkeys(one.by for one in r.rows)}
        plain = {by: {one.of: one for one in rows} for by, rows in kinds.items() if rows[0].other is None}
        table = grid("", *(f">{by}" for by in plain))
        for of in dict.fromkeys(of for rows in plain.values() for of in rows):
            table.add_row(of, *(_figure(rows[of]) if of in rows else "" for rows in plain.values()))
        if chances := [*filter(None, (_chance([*rows.values()]) for rows in plain.values()))]:
            table.add_row("chance", *chances, style="dim")
        yield from [table] if plain else []
        for by, rows in kinds.items():
            found = sorted((one for one in rows if one.stands_out or one.chance is None), key=lambda one: -one.value)
            yield from dim(words[by].format(found=sum(one.stands_out for one in rows), all=len(rows)))
            yield from () if by in plain or not found else _related(found)
        yield from dim(" ".join(words["notes"][note] for note in ("direct", *r.notes)))


def _figure(one: Circuit) -> str:
    return f"{one.value:.3g} " if one.stands_out or one.spread is None else f"({one.value:.3g})"


def _chance(rows: list[Circuit]) -> str:
    one = max(rows, key=lambda row: row.chance or 0.0)
    return "" if one.chance is None else f"{one.chance:.3g}" + (f" ± {one.spread:.2g}" if one.spread else "")


def _related(found: list[Circuit]) -> RenderResult:
    """A line each."""
    table, active = columns("lwr"), found[0].by == "active"
    for of in dict.fromkeys(one.of for one in found):
        own = [one for one in found if one.of == of][:_MOST]
        told = (f"{one.value:.3g} {(printable if active else token_label)(one.other or '')}" for one in own)
        table.add_row(token_label(of), ("\n" if active else "  ").join(told), Text(_chance(own), "dim"))
    yield table


def circuits_table(record: Circuits) -> CsvTable:
    """A row a number."""
    return CsvTable.of(record.rows, "by", "of", "other", "value", "chance", "spread", "stands_out")
