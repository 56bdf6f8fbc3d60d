"""Circuits as tables: the figures of heads and their compositions; what a head seeks and writes; a neuron's texts."""

import tomllib
from importlib.resources import files
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.safe import printable, token_label
from tfcli.draw.tables import CsvTable, columns, dim, grid, heading
from tfcli.inspection.circuits import Circuit, Circuits

_PAIRS, _MOST = 12, 6  # compositions that are shown, and tokens at either end of a ranking
_Rows = dict[str, list[Circuit]]


class CircuitsView(View[Circuits]):
    """A model, a head or a neuron, and what was left out; what chance could explain is in brackets, or not shown."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, words = self.record, tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
        rows = {by: [one for one in r.rows if one.by == by] for by in dict.fromkeys(one.by for one in r.rows)}
        name, draw = ("model", _model) if "QK" in rows else ("neuron", _neuron) if "mean" in rows else ("head", _head)
        said = words[name]
        of = r.of.replace("_self.", " self-attention, head ").replace("cross.", "cross-attention, head ")
        yield from heading(said["title"].format(of=of, run=printable(r.run)))
        yield from draw(rows, said, printable(r.measured_on))
        yield from dim("", " ".join(words["notes"][note] for note in ("direct", *r.notes)))


def _model(rows: _Rows, said: Any, _: str) -> RenderResult:
    kinds = {one.of.split(".")[0] for one in rows["QK"]}

    def named(head: str | None) -> str:
        return (head or "").partition(".")[2] if len(kinds) == 1 else (head or "").replace(".", " ", 1)

    scores, begun = ({one.of: one for one in rows.get(by, ())} for by in ("copying", "untrained"))
    table = grid("head", ">QK rank", ">OV rank", *[">copying", ">chance", ">untrained"] * bool(scores))
    for qk, ov in zip(rows["QK"], rows["OV"], strict=True):
        first = [f"{begun[qk.of].value:.2f}"] if qk.of in begun else []
        table.add_row(named(qk.of), f"{qk.value:.1f}", f"{ov.value:.1f}", *_beside(scores.get(qk.of)), *first)
    yield table
    yield from dim(said["ranks"].format(chance=rows["QK"][0].chance), *[said["copying"]] * bool(scores))
    every = [one for by in rows if by.endswith("composition") for one in rows[by]]
    found = sorted((one for one in every if one.stands_out), key=lambda one: -one.value)
    if every:
        yield Text(said["composing"].format(found=len(found), all=len(every)))
    pairs = grid("by", "writes", "reads", ">share", ">chance")
    for one in found[:_PAIRS]:
        pairs.add_row(one.by[0], named(one.of), named(one.other), *_beside(one))
    yield pairs if found else ""
    yield from dim(said["composition"].format(shown=len(found[:_PAIRS]))) if found else ()


def _beside(one: Circuit | None) -> tuple[str, ...]:
    """A number, in brackets where it does not stand out, and what chance has."""
    if one is None:
        return ()
    places = 2 if one.by == "copying" else 3
    value, chance, spread = (f"{number or 0:.{places}f}" for number in (one.value, one.chance, one.spread))
    return f"{value} " if one.stands_out else f"({value})", f"{chance} ± {spread}"


def _head(rows: _Rows, said: Any, _: str) -> RenderResult:
    for by, every in rows.items():
        yield Text(f"\n{said[by]}", "dim")
        table = columns("lw")
        for of in dict.fromkeys(one.of for one in every):
            table.add_row(Text(token_label(of), "bold"), Text(_beyond([one for one in every if one.of == of], said)))
        yield table
    numbers = [one for by in rows for one in rows[by]]
    beyond = sum(one.stands_out for one in numbers)
    yield from dim("", said["chance"].format(beyond=beyond, all=len(numbers), chance=len(numbers) / 40))


def _beyond(rows: list[Circuit], said: Any) -> str:
    """The tokens that stand out, the highest number first; in brackets the highest of those that do not."""
    ranked = sorted(rows, key=lambda one: -one.value)
    found, others = ([one for one in ranked if one.stands_out is how] for how in (True, False))
    found = found if len(found) <= 2 * _MOST else [*found[:_MOST], *found[-_MOST:]]
    told, beside = (
        "  ".join(f"{token_label(one.other or '')} {one.value:+.3g}" for one in of) for of in (found, others[:3])
    )
    chance = max(one.chance or 0.0 for one in rows)
    return "  ".join([*filter(None, [told]), *[said["beside"].format(tokens=beside, chance=chance)] * bool(beside)])


def _neuron(rows: _Rows, said: Any, measured_on: str) -> RenderResult:
    [mean], [positive], [first] = rows["mean"], rows["positive"], rows["first"]
    yield from dim(said["about"].format(on=measured_on, mean=mean.value, positive=positive.value))
    table = columns("rw")
    for one in rows["active"]:
        table.add_row(f"{one.value:.3g}", Text(printable(one.other or "")))
    yield table
    yield Text(said["first" if first.stands_out else "none"].format(token=token_label(first.other or ""), row=first))
    if "writes" in rows:
        yield Text(said["writes"].format(tokens=_beyond(rows["writes"], said)))


def circuits_table(record: Circuits) -> CsvTable:
    """A row a number."""
    return CsvTable.of(record.rows, "by", "of", "other", "value", "chance", "spread", "stands_out")
