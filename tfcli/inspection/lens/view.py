"""The logit lens: layers down, positions across, and one position's candidates layer by layer."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import labelled_row, scale_bar
from tfcli.draw.numbers import percent_in_four, plural
from tfcli.draw.safe import fit, token_label
from tfcli.draw.tables import CsvTable, dim, heading
from tfcli.inspection.lens import Lens
from tfcli.inspection.predictions.view import append_candidates, row_layout, sign

_GUTTER = 11
_LEAST_CELL, _MOST_CELL = 4, 10
_DIM, _BOLD = Style(dim=True), Style(bold=True)


class LensView(View[Lens]):
    """The likeliest token of every layer at every position, its probability as colour; as many positions side by side
    as fit, the others below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        what = "next token" if record.kind == "next" else "token that belongs there"
        yield from heading(
            f"Logit lens · the {what}, if the model stopped after each layer",
            "softmax(head(last norm(x))) of the residual stream x; the last row is the prediction",
        )
        yield Segment.line()
        cell = _cell_width(record, brush)
        fitting = max(1, (options.max_width - _GUTTER) // cell)
        for first in range(0, len(record.tokens), fitting):
            yield from _block(record, brush, cell, range(first, min(first + fitting, len(record.tokens))))
            yield Segment.line()
        yield Segment(" " * _GUTTER)
        yield from scale_bar("0", "1", brush)
        yield Segment("  p of the likeliest token\n", _DIM)
        early = sum(depth < len(record.top) - 1 for depth in record.settled)
        positions = plural(len(record.tokens), "position")
        yield from dim(f"At {early} of {positions} the prediction stands before the last layer.")
        yield from _by_layer(record, options)


def _cell_width(record: Lens, brush: Brush) -> int:
    """Room for nine in ten labels; a blank, or a shade, stands behind each."""
    tokens = (*record.tokens, *(token for row in record.top for token in row))
    widths = sorted(cell_len(token_label(token)) for token in tokens)
    wanted = widths[len(widths) * 9 // 10] + (1 if brush.in_color else 2)
    return max(_LEAST_CELL, min(_MOST_CELL, wanted))


def _block(record: Lens, brush: Brush, cell: int, columns: range) -> Iterator[Segment]:
    yield from _words("position", [str(column) for column in columns], cell, _DIM)
    yield from _words("read", [token_label(record.tokens[column]) for column in columns], cell, _BOLD)
    for depth, row in enumerate(record.top):
        grid = levels(record.probabilities[depth], 0.0, 1.0).tolist()
        painted = [grid[column] for column in columns]
        texts = [token_label(row[column]) for column in columns]
        if not brush.in_color:
            texts = [fit(text, cell - 2) + brush.glyph(level) for text, level in zip(texts, painted, strict=True)]
        name, widths = f"{layer_name(depth):>{_GUTTER - 1}} ", [cell] * len(texts)
        yield from labelled_row(name, texts, painted, widths, brush, align="left", behind=1)
        yield Segment.line()
    answers = [record.answers[column] for column in columns]
    if record.kind == "next":
        shown = ["?" if answer is None else token_label(answer) for answer in answers]
        yield from _words("true next", shown, cell, _DIM)
    settled = [record.settled[column] for column in columns]
    yield from _words("stays from", ["emb" if depth == 0 else str(depth - 1) for depth in settled], cell, _DIM)


def _words(name: str, words: list[str], cell: int, style: Style) -> Iterator[Segment]:
    line = "".join(fit(word, cell - 1) + " " for word in words)
    yield Segment(f"{name:>{_GUTTER - 1}} ", _DIM)
    yield Segment(line.rstrip() + "\n", style)


def _by_layer(record: Lens, options: ConsoleOptions) -> RenderResult:
    position = record.position
    final, read = token_label(record.top[-1][position]), token_label(record.tokens[position])
    where = f"after {read}" if record.kind == "next" else f"in the place of {read}"
    settled = layer_name(record.settled[position])
    yield from heading(f"\nPosition {position}, {where}, layer by layer")
    shown = fit(f"p({final})", 10, "right") if cell_len(final) > 6 else f"p({final})".rjust(10)
    yield Text(f"{'':>{_GUTTER - 1}} {shown}  likeliest", style="dim")
    layout = row_layout(record.candidates, options.max_width - _GUTTER - 13)
    for depth, candidates in enumerate(record.candidates):
        row = Text(f"{layer_name(depth):>{_GUTTER - 1}} ", no_wrap=True, overflow="crop")
        row.append(f"{percent_in_four(float(record.final[depth, position])):>10} ")
        append_candidates(row, candidates, record.top[-1][position], layout, ascii_only=options.ascii_only)
        yield row
    mark = sign(ascii_only=options.ascii_only)
    yield Text(f"{mark} what the model predicts in the end, the likeliest from {settled} on", style="dim")


def layer_name(depth: int) -> str:
    """What is read at a depth."""
    return "embedding" if depth == 0 else f"layer {depth - 1}"


def lens_table(record: Lens) -> CsvTable:
    """A row a depth and position."""
    names = ("depth", "position", "read", "answer", "top", "probability", "final_probability")
    rows = (
        (
            *(depth, position, record.tokens[position], record.answers[position], record.top[depth][position]),
            *(float(record.probabilities[depth, position]), float(record.final[depth, position])),
        )
        for depth in range(len(record.top))
        for position in range(len(record.tokens))
    )
    return CsvTable(names, rows)
