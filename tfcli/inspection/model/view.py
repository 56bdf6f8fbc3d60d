"""The architecture as the lectures draw it, from the tokens below to the predictions above, with every matrix."""

import textwrap
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import exact, percent, short
from tfcli.draw.tables import CsvTable, bar, columns, dim, grid
from tfcli.inspection.model import Block, ModelRecord, StackRecord, Sublayer

Lines = list[Text]

_PLAIN = str.maketrans("╭╮╰╯─│┤╔╗╚╝═║▲▶⊕×·⊙", "++++-||++++=|^>+x.*")
_LIGHT, _DOUBLE = "╭╮╰╯─│", "╔╗╚╝═║"  # of a box: corners, and the two kinds of sides
_BOXES = {  # titles and styles
    "embedding": ("Embedding", "green"),
    "positions": ("Positions", "green"),
    "attention": ("Self-attention", "yellow"),
    "cross_attention": ("Cross-attention", "red"),
    "feed_forward": ("Feed-forward", "blue"),
    "norm": ("Norm", "cyan"),
    "head": ("Head", "magenta"),
}
_WIDEST = 72  # of a column
_GAP = 6  # cells between the columns of an encoder-decoder
_NARROWEST = 50  # column in which every matrix has room
_BAR, _BARS_FROM = 24, 74


def boxed(lines: Iterable[Text], width: int, *, title: str, number: str, style: str, frame: str = _LIGHT) -> Lines:
    """Lines inside a frame of `width` cells, open at the bottom for the arrow that comes in."""
    left, right, low_left, low_right, across, down = tuple(frame)
    name, count = f" {title} ", f" {number} "
    fill = across * (width - 4 - len(name) - len(count))
    top = Text.assemble((left + across, style), (name, f"bold {style}"), (fill, style), (count, style))
    top.append(across + right, style)
    edge, middle = Text(low_left + across * (width - 2) + low_right, style), width // 2
    inside = (Text.assemble((down, style), padded(line, width - 2), (down, style)) for line in lines)
    return [top, *inside, Text.assemble(edge[:middle], "▲", edge[middle + 1 :])]


def padded(line: Text, width: int) -> Text:
    """As wide as asked for."""
    line = line.copy()
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def centred(text: str, width: int, style: str = "") -> Text:
    """In the middle, with the sign at half the width over an arrow."""
    return padded(Text(" " * max(0, width // 2 - len(text) // 2) + text, style), width)


class ModelView(View[ModelRecord]):
    """The diagram, then the sums with their shares."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        size = f"{exact(r.parameters)} parameters ({short(4 * r.parameters, 'B')} in float32)"
        yield Text.assemble((r.architecture, "bold"), (f" · {size}", "dim"))
        yield from dim(
            "Rows of X are tokens: X W is X times a matrix of rows × columns; + b adds a bias of as many columns. "
            "Beside it, its parameters. Read it from below."
        )
        about = columns("lw")
        for name, words in r.about:
            about.add_row(Text(name), Text(words, "dim"))
        yield about
        yield Text()
        for line in _diagram(r, options.max_width):
            if options.ascii_only:  # an encoding that has no lines to draw with
                line.plain = line.plain.translate(_PLAIN)
            yield line
        yield Text()
        yield _sums(r, with_bars=options.max_width >= _BARS_FROM, ascii_only=options.ascii_only)
        yield from dim(*r.ties)


def model_table(record: ModelRecord) -> CsvTable:
    """A row for each matrix of a box; of layers, of one of them."""
    every = ((where, count, m) for where, count, block in _blocks(record) for m in block.matrices)
    rows = ((where, count, m.name, "x".join(map(str, m.shape)), m.bias, m.parameters) for where, count, m in every)
    return CsvTable(("block", "count", "name", "shape", "bias", "parameters"), rows)


def _blocks(record: ModelRecord) -> Iterator[tuple[str, int, Block]]:
    yield from (("embedding", 1, block) for block in record.embeddings)
    for stack in record.stacks:
        own = (stack.positions, stack.final_norm)
        yield from ((f"{stack.side} {block.kind}", 1, block) for block in own if block is not None)
        for sublayer in stack.sublayers:
            name = f"{stack.side} {sublayer.block.kind}"
            yield from ((name, stack.num_layers, sublayer.block), (f"{name} norm", stack.num_layers, sublayer.norm))
    yield "head", 1, record.head


def _diagram(r: ModelRecord, width: int) -> Iterator[Text]:
    column, widest = (width - _GAP) // 2, min(width, _WIDEST)
    if len(r.stacks) == 1 or column < _NARROWEST:
        for number in reversed(range(len(r.stacks))):
            yield from _column(r, number, widest)
            if number:
                yield Text()
        return
    columns = [_column(r, number, min(column, _WIDEST)) for number in (0, 1)]
    height = max(map(len, columns))
    encoder, decoder = ([Text(" " * one[0].cell_len)] * (height - len(one)) + one for one in columns)
    reads = next(i for i, line in enumerate(decoder) if _BOXES["cross_attention"][0] in line.plain)
    bridge = _bridge(height, height - len(columns[0]), reads)
    yield from (Text.assemble(*three) for three in zip(encoder, bridge, decoder, strict=True))


def _bridge(height: int, gives: int, reads: int) -> Lines:
    """The way from the encoder's output, at one line, to where the decoder reads it, at another."""
    half, (high, low) = _GAP // 2, sorted((gives, reads))
    lines = [" " * half + "│" if high < number < low else "" for number in range(height)]
    lines[gives] = "─" * half + ("╯" if gives > reads else "╮")
    lines[reads] = " " * half + ("╭" if gives > reads else "╰") + "─" * (_GAP - half - 2) + "▶"
    if gives == reads:
        lines[gives] = "─" * (_GAP - 1) + "▶"
    return [Text(line.ljust(_GAP), "red" if line else "") for line in lines]


def _column(r: ModelRecord, number: int, width: int) -> Lines:
    """A stack on its embedding; the last one with the head on top."""
    stack, embedding = r.stacks[number], r.embeddings[number]
    if number == len(r.stacks) - 1:
        lines = [centred("softmax: probabilities" if r.has_logits else "vectors", width, "dim"), centred("▲", width)]
        boxes = [_box(r.head, width)]
    else:
        lines, boxes = [], [[Text((" " * (width // 2) + "╭─ to K and V ").ljust(width, "─"), "red")]]
    for part in (stack.final_norm, stack, stack.positions, embedding):
        if part is not None:
            boxes.append(_stack(part, width) if isinstance(part, StackRecord) else _box(part, width))
    side = {"encoder": "source", "decoder": "target"}[stack.side] if len(r.stacks) > 1 else "input"
    ids = centred(f"{side}: up to {exact(r.max_seq_len)} ids of {exact(r.vocab_size)}", width, "dim")
    return [*lines, *(line for box in boxes for line in (*box, centred("│", width))), ids]


def _stack(stack: StackRecord, width: int) -> Lines:
    inside = [line for sublayer in reversed(stack.sublayers) for line in _sublayer(sublayer, width - 2)]
    title = f"{stack.side} · × {stack.num_layers}" + (" layers" if stack.num_layers > 1 else " layer")
    number = f"{stack.num_layers} × {exact(stack.layer_parameters)}"
    return boxed(inside, width, title=title, number=number, frame=_DOUBLE, style="bold")


def _sublayer(sublayer: Sublayer, width: int) -> Lines:
    """The block with the residual's way around it, at the left; a norm below it, or with the sum above it."""
    room, post = width - 8, sublayer.placement == "post"  # two cells of the residual's way at each side, one of air
    block, norm, arrow = _box(sublayer.block, room), _box(sublayer.norm, room), centred("│", room)
    inside = [*block, arrow, *norm]
    if not sublayer.residual:
        inside = [*norm, arrow, *block] if post else inside
        return [padded(Text.assemble("    ", line), width) for line in inside]
    sizes = ", ".join(f"{matrix.name} {matrix.shape[0]}" for matrix in sublayer.norm.matrices)
    total, add = "", [("⊕ Add", "bold")]
    if post:
        total, inside = exact(sublayer.norm.parameters), block
        add = [("⊕ Add & Norm", "bold cyan"), (f"  {sizes}" if sizes else "", "dim")]
    lines = [Text.assemble(padded(Text.assemble(" ╭─▶ ", *add), width - len(total) - 4), total, "    ")]
    lines += [Text.assemble(" │  ", padded(line, room + 1)) for line in inside]
    lines.append(Text(" ╰" + "─" * (width // 2 - 2) + "┤"))
    return [padded(line, width) for line in lines]


def _box(block: Block, width: int) -> Lines:
    """Notes, then a matrix a line: name, shape and parameters, each in its column."""
    inner = width - 4
    notes = [Text(line, "dim") for note in block.notes for line in textwrap.wrap(note, inner)]
    names = max((len(matrix.name) for matrix in block.matrices), default=0)
    numbers = max((len(exact(matrix.parameters)) for matrix in block.matrices), default=0)
    for m in block.matrices:
        name = Text.assemble((m.name.ljust(names), "bold"), f"  {' × '.join(map(str, m.shape))}{' + b' * m.bias}")
        notes.append(Text.assemble(padded(name, inner - numbers), exact(m.parameters).rjust(numbers)))
    title, style = _BOXES[block.kind]
    lines = (Text.assemble(" ", line) for line in notes)
    return boxed(lines, width, title=title, number=exact(block.parameters), style=style)


def _sums(r: ModelRecord, *, with_bars: bool, ascii_only: bool) -> Table:
    table = grid("part", ">×", ">parameters", ">share", *[""] * with_bars)
    for group in r.groups:
        share = group.parameters / r.parameters
        bars = [Text(bar(share, _BAR, ascii_only=ascii_only), "cyan")] * with_bars
        table.add_row(group.name, str(group.count), exact(group.parameters), percent(share), *bars)
    table.add_section()
    table.add_row("all", "", Text(exact(r.parameters), "bold"), "100.0 %")
    return table
