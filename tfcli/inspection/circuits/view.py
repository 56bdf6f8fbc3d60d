"""Circuits as tables: heads and their compositions, what tokens seek and write, a neuron's texts."""

import tomllib
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.heatmap import NumberMap, signed
from tfcli.draw.safe import printable, token_label
from tfcli.draw.tables import CsvTable, columns, dim, grid, heading
from tfcli.inspection.circuits import Circuit, Circuits

_PAIRS = 12  # of heads
_Rows = dict[str, list[Circuit]]


class CircuitsView(View[Circuits]):
    """A model, a head or a neuron, and what was left out."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, words = self.record, tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
        rows = {row.by: [one for one in r.rows if one.by == row.by] for row in r.rows}
        name, draw = ("model", _model) if "QK" in rows else ("neuron", _neuron) if "first" in rows else ("head", _head)
        said, about = words[name], {"random": r.rows[0].chance, "r": r, "run": printable(r.run)}
        yield from heading(said["title"].format(**about), said["about"].format(**about))
        yield from draw(rows, said)
        yield from dim(" ".join(words["notes"][note] for note in ("direct", *r.notes)))


def _model(rows: _Rows, said: Any) -> RenderResult:
    table, pairs, scores = grid(*said["heads"]), grid(*said["pairs"]), {one.of: one for one in rows.get("copying", ())}
    for qk, ov in zip(rows["QK"], rows["OV"], strict=True):
        table.add_row(qk.of, f"{qk.value:.1f}", f"{ov.value:.1f}", *_beside(scores.get(qk.of)))
    every = [one for by in rows if by.endswith("composition") for one in rows[by]]
    found = sorted((one for one in every if one.stands_out), key=lambda one: -one.value)
    for one in found[:_PAIRS]:
        pairs.add_row(one.by[0], one.of, one.other, *_beside(one))
    told = said["composing"].format(found=len(found), pairs=len(every), shown=len(found[:_PAIRS]))
    yield from (table, Text(told), pairs)


def _beside(one: Circuit | None) -> tuple[Text, ...]:
    """Its value, bright where it stands out, and what chance has."""
    if one is None:
        return ()
    return Text(f"{one.value:.2f}", "bold" if one.stands_out else "dim"), Text(
        f"{one.chance:.2f} ± {one.spread:.3f}", "dim"
    )


def _head(rows: _Rows, said: Any) -> RenderResult:
    tokens = tuple(dict.fromkeys(one.of for one in rows["seeks"]))
    labels = tuple(map(token_label, tokens))
    for by, every in rows.items():
        table, at = columns("lw", "token", said[by]), {(o.of, o.other): o.value for o in every if o.stands_out}
        for token, label in zip(tokens, labels, strict=True):
            table.add_row(Text(label, "bold"), _beyond([one for one in every if one.of == token], said))
        cells = np.array([at.get(pair, np.nan) for pair in product(tokens, tokens)]).reshape(len(tokens), -1)
        yield from (Text(), table)
        if not np.isnan(cells).all():
            yield NumberMap(cells, said[by], labels, labels)


def _beyond(rows: list[Circuit], said: Any) -> str:
    found = sorted((one for one in rows if one.stands_out), key=lambda one: -one.value)
    told = "  ".join(f"{token_label(one.other or '')} {signed(one.value)}" for one in found)
    return told or said["nothing"].format(chance=max(one.chance or 0.0 for one in rows))


def _neuron(rows: _Rows, said: Any) -> RenderResult:
    table, [first] = columns("rw"), rows["first"]
    for one in rows["active"]:
        table.add_row(signed(one.value), printable(one.other or ""))
    told = said["first" if first.stands_out else "none"].format(token=token_label(first.other or ""), row=first)
    yield from (Text(), table, Text(), Text(told))
    if "writes" in rows:
        yield Text(said["writes"].format(names=_beyond(rows["writes"], said)))


def circuits_table(record: Circuits) -> CsvTable:
    """A row a number."""
    return CsvTable.of(record.rows, "by", "of", "other", "value", "chance", "spread", "stands_out")
