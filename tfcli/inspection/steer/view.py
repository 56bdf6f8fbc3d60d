"""Steering at several strengths as a table, with the texts that come of it."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import percent, plural
from tfcli.draw.safe import printable, token_label
from tfcli.draw.tables import CsvTable, columns, grid, heading
from tfcli.inspection.steer import FIGURES, Steered, Steering


class SteeringView(View[Steering]):
    """What the vector is, what it does at every strength and by chance, and the texts."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one, (few, many) = self.record, (plural(number, "text") for number in self.record.texts)
        yield from heading(
            f"Steering behind layer {one.at.removeprefix('encoder.')} of the {one.stack}",
            f"The mean residual stream on {many} of --to less that on {few} of --from. Its norm: {one.norm:.3g}, "
            f"{percent(one.norm / one.stream_norm)} of the stream's.",
            f"Loss, and the probability of the tokens below at a position: over {one.measured_on}. Behind strength 0, "
            "their changes with 95 % intervals; in brackets: not different from 0.",
        )
        table, texts = grid("strength", *(f">{title}" for title in FIGURES.values())), columns("rw")
        more = _more_digits(one)
        for row in one.strengths:
            strength = f"{row.strength:+g}" if row.strength else "0"
            table.add_row(strength, *(_cell(row, name, more) for name in FIGURES))
            texts.add_row(Text(strength, "bold"), Text(printable(row.text) + " …" * (row.finish == "length")))
        table.add_row("chance", *(Text(_written(name, *one.chance[name], more=more), "dim") for name in FIGURES))
        yield table
        yield Text(_told(one))
        for side, tokens in zip(("from", "to"), one.tokens, strict=True):
            yield Text(f"{side}-tokens: {' '.join(map(token_label, tokens)) or 'none'}")
        yield from heading(f"\nWhat comes of {printable(one.prompt)!r}, greedily")
        yield texts


def steering_table(record: Steering) -> CsvTable:
    """A row for each figure at each strength."""
    figures = ((row, name, getattr(row, name)) for row in record.strengths for name in FIGURES)
    rows = [(r.strength, name, f.value, f.change, *(f.interval or (None, None)), r.text) for r, name, f in figures]
    return CsvTable(("strength", "figure", "value", "change", "low", "high", "text"), rows)


def _written(name: str, *values: float, more: int = 0) -> str:
    (scale, digits) = (1, 3 + more) if name == "loss" else (100, 2 + more)
    return ", ".join(f"{scale * value:+.{digits}f}" for value in values)


def _more_digits(one: Steering) -> int:
    """How many it takes to see on which side of chance the changes at strength 1 are."""
    rows = [(name, getattr(row, name).change) for row in one.strengths if row.strength == 1 for name in FIGURES]
    both = [(name, pair) for name, change in rows for end in one.chance[name] if len(pair := {end, change}) > 1]
    alike = (any(len({_written(name, n, more=more) for n in pair}) < 2 for name, pair in both) for more in range(3))
    return [*alike, False].index(False)


def _cell(row: Steered, name: str, more: int = 0) -> Text:
    one = getattr(row, name)
    if not row.strength:
        return Text(_written(name, one.value, more=more)[1:], "bold")
    low, high = one.interval or (0.0, 0.0)
    ends = _written(name, low, high, more=more) if one.interval else "few texts"
    change, is_told = _written(name, one.change, more=more), not low <= 0 <= high or one.interval is None
    return Text(change if is_told else f"({change})", "dim" if low <= 0 <= high else "").append(f"\n{ends}", "dim")


def _told(one: Steering) -> str:
    """What can be told from chance, and what cannot."""
    changes = {name: getattr(row, name).change for row in one.strengths if row.strength == 1 for name in FIGURES}
    beyond = [name for name, (low, high) in one.chance.items() if not low <= changes[name] <= high]
    told = ", ".join(FIGURES[name].partition(",")[0] for name in beyond) or "nothing"
    told = f"Chance: 39 random directions as long at strength 1; beyond all of them: {told}.\nHeld-out texts: "
    if one.separation is None:
        return f"{told}none with fewer than 6 texts in a set."
    share, (low, high) = one.separation
    held = f"{'more' if share > high else 'no more'} than with texts shuffled between the sets"
    held = f"{held} ({percent(low)} to {percent(high)})"
    return f"{told}in {percent(share)} of pairs that of --to lies further along, {held}."
