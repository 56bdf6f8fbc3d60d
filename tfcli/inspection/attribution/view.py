"""A logit's parts as a signed map, and in the order of their size; tokens that are read, methods, and their curves."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import SIGNED, Brush, brush_for, levels
from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import NumberMap, labelled_row
from tfcli.draw.numbers import percent
from tfcli.draw.safe import fit, shortened, token_label, widest
from tfcli.draw.tables import CsvTable, bar, dim, grid, heading
from tfcli.inspection.attribution import CHANCE, Attribution, InputAttribution, part_name

_RANKED = 12
_DIM = Style(dim=True)
_FORMULA = "logit = Σ part · W[token], each part taken through the norms with their scale at this position"
_GATED = "The head is not linear: its activation f(z) is z times f(z)/z, and that factor is kept as it is."


class AttributionView(View[Attribution]):
    """Rows are layers, columns are heads, the feed-forward and biases; the embeddings stand above."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, SIGNED)
        token, against = token_label(record.token), record.against
        what = f"the logit of {token}" if against is None else f"{token} against {token_label(against)}"
        yield from heading(f"Direct logit attribution · {what}", _where(record), _FORMULA, *[_GATED] * record.gated)
        grid, columns = _grid(record)
        highest, total = max(abs(one.value) for one in record.parts), sum(one.value for one in record.parts)
        yield from heading("\noutside the layers")
        for part, value in ((one.part, one.value) for one in record.parts if one.part.layer is None):
            level = levels(np.array([value], np.float32), -highest, highest).tolist()
            yield from labelled_row(f"{part_name(part):<16}", [_signed(value)], level, [8], brush, before=1)
            yield Segment.line()
        yield Text("")
        labels = tuple("" if head is None else str(head) for _, head in columns)
        layers = tuple(f"layer {layer}" for layer in range(len(grid)))
        values_and_sums = np.column_stack((grid, np.nansum(grid, 1)))
        every = (*Counter(name for name, _ in columns).items(), ("Σ", 1))
        yield NumberMap(values_and_sums, "what the logit owes to it", layers, (*labels, ""), every, scale=highest)
        yield from heading("\nThe largest")
        yield from _ranked(record, options)
        yield Text(_extremes(record))
        own = f"{'logit' if against is None else 'difference of the logits'} {record.logit:+.4f}"
        yield Text(f"Sum of all {len(record.parts)} parts {total:+.4f}; the model's own {own}")


def _where(record: Attribution) -> str:
    token, read = token_label(record.token), token_label(record.tokens[record.position])
    found = f"Position {record.position}, {read}: p({token}) = {percent(record.probability)}, rank {record.rank}"
    others = [token_label(token) for token in record.best if token != record.token and record.against is None]
    return f"{found}; likeliest beside it: {others[0]} (--against compares the two)" if others else found


def _extremes(record: Attribution) -> str:
    ranked = sorted(record.parts, key=lambda one: one.value)
    ends = ((ranked[-1], "raises", ranked[-1].value > 0), (ranked[0], "lowers", ranked[0].value < 0))
    words = [f"{part_name(one.part)} {does} it most ({_signed(one.value)})" for one, does, is_so in ends if is_so]
    return "; ".join(words) + "." * bool(words)


_COLUMNS = {"head": "heads", "cross_head": "cross-attention", "feed_forward": "MLP", "bias": "bias"}


def _grid(record: Attribution) -> tuple[NDArray[np.float32], list[tuple[str, int | None]]]:
    """Layers × columns, NaN where a layer has no such part, and the names of the columns, each with its head."""
    inside = [(one.part, one.value) for one in record.parts if one.part.layer is not None]
    columns = [(kind, head) for kind in _COLUMNS for head in sorted({p.head or 0 for p, _ in inside if p.kind == kind})]
    grid = np.full((1 + max(part.layer or 0 for part, _ in inside), len(columns)), np.nan, np.float32)
    for part, value in inside:
        grid[part.layer, columns.index((part.kind, part.head or 0))] = value
    return grid, [(_COLUMNS[kind], head if kind.endswith("head") else None) for kind, head in columns]


def _ranked(record: Attribution, options: ConsoleOptions) -> Iterator[Text]:
    ranked = sorted(record.parts, key=lambda one: -abs(one.value))
    shown, rest = ranked[:_RANKED], ranked[_RANKED:]
    names = tuple(part_name(one.part) for one in shown)
    highest, width = max(abs(ranked[0].value), 1e-12), widest(names)
    half = max(4, min(24, (options.max_width - width - 12) // 2))
    for name, one in zip(names, shown, strict=True):
        line = Text(f"  {fit(name, width)} {_signed(one.value):>7} ", no_wrap=True, overflow="crop")
        # To the right of the middle, or to the left where it is negative.
        below = ("#" if options.ascii_only else "█") * round(max(0.0, -one.value / highest) * half)
        line.append(below.rjust(half), "blue").append("|" if options.ascii_only else "│")
        yield line.append(bar(one.value / highest, half, ascii_only=options.ascii_only), "red")
    if rest:
        yield Text(f"  {fit(f'{len(rest)} smaller', width)} {_signed(sum(one.value for one in rest)):>7}", "dim")


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 1000 else f"{value:+.3g}"


def attribution_table(record: Attribution) -> CsvTable:
    """A row a part."""
    rows = ((one.part.kind, one.part.layer, one.part.head, one.value) for one in record.parts)
    return CsvTable(("part", "layer", "head", "value"), rows)


_METHODS = {
    "gradient": ("cyan", "x · ∂F/∂x, x the token's row of the embedding"),
    "integrated-gradients": ("yellow", "(x − x′) · mean of ∂F/∂x on the line from the baseline's x′ to x"),
    "occlusion": ("magenta", "F less F with the one token replaced"),
    "rollout": ("green", "share in the vector: through attention, ½ of it stays, ½ is what the mean head sees"),
    "value-weighted": ("red", "as rollout, with the norms of what heads write, ‖Σ α·f(x)‖, for their weights"),
}


class InputAttributionView(View[InputAttribution]):
    """Rows are tokens, columns methods, each coloured up to its own largest number; curves say which found more."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, direct, (mean, low, high) = self.record, self.record.direct, self.record.spread
        token, against = token_label(direct.token), direct.against
        shown = f"p({token})" if against is None else f"logit of {token} − logit of {token_label(against)}"
        about = (f"{method}: {_METHODS[method][1]}" for method in record.methods)
        digits = _digits(record)
        baseline = f"{record.of_baseline:+.4f} with {token_label(record.baseline)} for all tokens of the text"
        title = f"Input attribution · F = {'log ' * (against is None)}{shown}"
        yield from heading(title, _where(direct), f"F = {record.value:+.4f}; {baseline}, the baseline", *about)
        yield self._table(brush_for(console, SIGNED))
        yield from dim(
            "largest: what 1 is in a column · deletion, insertion: means of the curves below; of 100 random orders "
            f"{mean:.2g}, better than chance below {low:.{digits}g} and above {high:.{digits}g} · ρ: rank correlation "
            f"(Spearman) over the tokens of the text, of unrelated orders 95 % within ±{record.unrelated:.2g} · "
            "(in brackets): no better than chance"
        )
        if record.gaps:
            total = np.nansum(record.values[record.methods.index("integrated-gradients")])
            off = ", ".join(f"{percent(gap)} with {64 << at} steps" for at, gap in enumerate(record.gaps))
            rise = f"F rises by {record.value - record.of_baseline:+.4f} from the baseline"
            yield Text(f"{rise}, and integrated gradients sum to {total:+.4f}; off by {off}.")
        for at, (what, how) in enumerate((("Deletion", "replaced"), ("Insertion", "put back"))):
            yield from heading(f"\n{what}: {shown} with so many tokens {how}, the largest first")
            series = [Series("random orders", record.counts, record.random[:: 1 - 2 * at], "dim")]
            for method, curve in zip(record.methods, record.curves[at], strict=True):
                series.append(Series(method, record.counts, curve, _METHODS[method][0], letter=method[0]))
            yield Plot(tuple(series), "tokens", height=7)

    def _table(self, brush: Brush) -> Table:
        record, names = self.record, [method.split("-")[0] for method in self.record.methods]
        table = grid("token", *(f">{name}" for name in names), padding=0)
        largest = np.nanmax(np.abs(record.values), axis=1)
        shares = (record.values.T / np.where(largest, largest, 1.0)).astype(np.float32)
        for place, (side, row) in enumerate(zip(record.sides, shares, strict=True)):
            if (at := place - record.sides.index(side)) == 0 and side != "text":
                table.add_row(Text(side, "bold"))
            cells = [Text("" if np.isnan(share) else f"{share:+.2f}") for share in row.tolist()]
            for cell, level in zip(cells, levels(row, -1, 1).tolist(), strict=True):
                cell.style = brush.readable(level) if brush.in_color and cell else ""
            table.add_row(Text(shortened(f"{at:>3} {token_label(record.read[place])}", 24)), *cells)
        table.add_section()
        table.add_row("largest", *(f"{one:.3g}" for one in largest))
        rows = ["deletion", "insertion", *(f"ρ {name}" for name in names if len(names) > 1)]
        told = [*(record.as_good <= CHANCE), *(abs(record.agreement) + np.eye(len(names)) > record.unrelated)]
        for at, (what, numbers, good) in enumerate(zip(rows, [*record.areas, *record.agreement], told, strict=False)):
            texts = [f"{x:.{_digits(record) if at < 2 else 2}g}" for x in numbers]
            table.add_row(what, *(x if ok else f"({x})" for x, ok in zip(texts, good, strict=True)))
        return table


def _digits(record: InputAttribution) -> int:
    """Digits that tell every area that is better than chance from the bound that decides."""
    rows = zip(record.areas, record.as_good <= CHANCE, record.spread[1:], strict=True)
    told = [(area, bound) for areas, good, bound in rows for area in areas[good]]
    return next((n for n in range(2, 6) if all(f"{area:.{n}g}" != f"{bound:.{n}g}" for area, bound in told)), 6)


def inputs_table(record: InputAttribution) -> CsvTable:
    """A row a token that is read, a column a method."""
    numbers = ((None if np.isnan(one) else one for one in row) for row in record.values.tolist())
    rows = zip(record.sides, record.read, *numbers, strict=True)
    return CsvTable(("side", "token", *record.methods), rows)
