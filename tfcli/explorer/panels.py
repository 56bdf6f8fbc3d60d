"""The explorer's panels, which shrink, then go on a small screen; its keys, said once for bindings, help and hints."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tfcli.draw.colors import LEVELS, NO_VALUE, NO_VALUE_MARK, SIGNED, Brush, levels
from tfcli.draw.heatmap import Line
from tfcli.draw.numbers import weight
from tfcli.draw.safe import fit, printable, widest
from tfcli.draw.tables import bar, columns
from tfcli.explorer.map import AttentionMap, Thumbnails, cell_number
from tfcli.explorer.scene import BOLD, DIM, SAID, Drawn, Scene, command_lines, cursor_style, map_brush, mark_style
from tfcli.explorer.state import View, around
from tfcli.inspection.attention.matrix_view import KIND_NAMES, labels


@dataclass(frozen=True)
class Key:
    """Keys as Textual names them, how they are written, the action, what it does, and a word for the line of hints."""

    keys: str
    written: str
    action: str
    words: str = ""
    hint: str = ""


KEYS = tuple(Key(*one) for one in SAID["keys"])
_HINTS = [(key.written.split("  ")[0], key.hint) for key in KEYS if key.hint]


class HelpScreen(ModalScreen[None]):
    """The keys over everything else; any key leaves it."""

    def compose(self) -> ComposeResult:
        table = columns("lw")
        for key in KEYS:
            if key.words:  # one row for keys that belong together
                table.add_row(Text(key.written, "bold"), Text(key.words))
        box = Static(table, id="help")
        box.border_title, box.border_subtitle = "keys", "any key goes back"
        yield box

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss()

    def on_click(self) -> None:
        self.dismiss()


class HeaderLine(Drawn):
    """On the left the run and the head, on the right how it is shown."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        view, place = scene.view, scene.view.place
        layers, heads = scene.record.weights.shape[:2]
        heads_shown = {"head": f"head {place.head} of {heads}", "mean": "mean of its heads", "rollout": "rollout"}
        where = [KIND_NAMES[place.kind], f"layer {place.layer} of {layers}", heads_shown[view.combined]]
        how = ["row by row" if view.scale == "row" else view.scale, "blue to red" if view.signed else "cividis"]
        if view.marked is not None:
            how.insert(0, f"marked: layer {view.marked.layer}, head {view.marked.head}")
        left = f"{printable(Path(scene.run).name)}  {' · '.join(where)}"
        right = ", ".join(how) if width >= 100 else ""
        name, room = Segment(" tfcli ", mark_style(scene.color_system)), width - 8 - cell_len(right)
        return [[name, Segment(fit(left, room), BOLD), Segment(right, DIM)]]


class CommandLine(Drawn):
    """The command that prints what is looked at; what the layout has no line for is cut, and printed at the end."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        lines = command_lines(scene, width)
        if len(lines) > height:
            lines = [*lines[: height - 1], f"{lines[height - 1]} …"]
        return [
            [Segment("  " if number else "$ ", mark_style(scene.color_system)), Segment(fit(line, width - 2), BOLD)]
            for number, line in enumerate(lines)
        ]


class HintLine(Drawn):
    """The keys; in their place, until something else is done, what went wrong or is going on."""

    _message, _is_error = "", False

    def say(self, message: str, *, is_error: bool = False) -> None:
        """Show a sentence; "" shows the keys again."""
        self._message, self._is_error = message, is_error
        self.redraw()

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        if self._message:
            is_red = self._is_error and scene.color_system is not None
            style = Style(bold=True, color="rgb(229,50,50)" if is_red else None)
            return [[Segment(fit(printable(self._message), width), style)]]
        line: Line = []
        for key, word in _HINTS[-2:] + _HINTS[:-2]:  # help and leaving come first
            width -= cell_len(key) + len(word) + 3
            if width < 0:
                break
            line += [Segment(key, BOLD), Segment(f" {word}  ", DIM)]
        return [line]


_NUMBER = 5
_ROLES = ("first token", "itself", "previous token", "next token", "same place")
_MOST_FACTS = len(_ROLES) + 5  # no kind has all


class RowBars(Drawn):
    """Where one query looks: a bar a key, in order or with the largest first; as many as fit around the cursor."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        values, view, mark = scene.values, scene.view, mark_style(scene.color_system)
        row, hidden = np.nan_to_num(values.numbers[view.row]), np.isnan(values.numbers[view.row])
        order = list(range(len(row)))
        if view.sorted:  # what may not be looked at stays behind
            order.sort(key=lambda key: (hidden[key], -abs(row[key])))
        shown = min(len(order), height if len(order) <= height else height - 1)
        first = around(order.index(view.column), shown, len(order))
        label_width = min(widest(scene.keys), max(4, width // 3))
        room = max(1, width - label_width - _NUMBER - 3)
        brush = map_brush(view, scene.color_system)
        grid = levels(values.shades[view.row], values.low, values.high).tolist()
        # As long as the colours are strong: a weight of 1 fills the panel, unless each row has its own scale.
        largest = float(np.abs(row).max()) or 1.0 if values.signed or view.scale == "row" else 1.0
        lines = []
        for key in order[first : first + shown]:
            number, label, is_cursor = float(row[key]), fit(scene.keys[key], label_width, "right"), key == view.column
            drawn = fit(bar(abs(number) / largest, room), room)
            written = NO_VALUE_MARK if hidden[key] else cell_number(number, signed=values.signed)
            name = Segment(f"▸{label} ", mark) if is_cursor else Segment(f" {label} ")
            filled = Segment(drawn, _bar_style(grid[key], brush, light=scene.light))
            lines.append([name, filled, Segment(written.rjust(_NUMBER), DIM if hidden[key] else None)])
        if shown < len(order):
            lines.append([Segment(f"{len(order) - shown} more keys", DIM)])
        return lines


def _bar_style(level: int, brush: Brush, *, light: bool) -> Style | None:
    if not brush.in_color or level == NO_VALUE:
        return None
    if brush.colormap is not SIGNED:
        # What is nearest to the screen's own colour would not be seen on it.
        level = min(level, LEVELS * 2 // 3) if light else max(level, LEVELS // 3)
    return brush.style(level)


class HeadFacts(Drawn):
    """A name and a number a line, those that fit; the role is the panel's title."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        head = scene.reading.statistics_of(scene.view.place)
        if head is None:
            return [[Segment("one token alone", DIM)]]
        shares: dict[str, float | None] = {"largest": head.sharpness}
        shares |= {role: one.share for role in _ROLES if (one := head.of(role)) is not None}
        shares |= {"induction": head.induction, "duplicate": head.duplicate, "in order": head.in_order}
        facts = {"entropy": f"{head.entropy:.2f} nats"}
        if head.distance is not None:
            facts["distance"] = f"{head.distance:.1f}"
        facts |= {name: weight(share) for name, share in shares.items() if share is not None}
        return [
            [Segment(fit(name, max(0, width - len(value) - 1)) + " ", DIM), Segment(value, BOLD)]
            for name, value in list(facts.items())[:height]
        ]


Spans = list[tuple[int, int, int]]  # from which cell up to which a token stands, and its number


class TokenStrip(Drawn):
    """Two lines of tokens, moved so that the cursor's are in sight. A click chooses a query or a key."""

    _spans: tuple[Spans, ...] = ()

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        brush = map_brush(scene.view, scene.color_system)
        shades = levels(scene.values.shades[scene.view.row], scene.values.low, scene.values.high).tolist()
        mark, inputs = cursor_style(scene.color_system), labels(scene.record.query_tokens)
        queries = [mark if row == scene.view.row else DIM for row in range(len(inputs))]
        plain, name = Style.null(), mark_style(scene.color_system)
        keys = [DIM if one == NO_VALUE else brush.readable(one) if brush.in_color else plain for one in shades]
        keys[scene.view.column] += Style(underline=True, bold=True)
        above, of_queries = _strip(Segment("query ", name), inputs, queries, scene.view.row, width)
        below, of_keys = _strip(Segment("keys  ", name), scene.keys, keys, scene.view.column, width)
        self._spans = of_queries, of_keys
        return [above, below]

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        row, column = scene.cursor
        for start, end, index in self._spans[y] if y < len(self._spans) else []:
            if start <= x < end:
                return scene.view.at(scene.record, *((index, column) if y == 0 else (row, index)))
        return None


def _strip(name: Segment, tokens: Sequence[str], styles: list[Style], at: int, width: int) -> tuple[Line, Spans]:
    """Tokens from the first one that leaves token `at` in sight, and where on the line each of them is."""
    room, lengths = width - name.cell_length, [cell_len(token) + 2 for token in tokens]
    first, used = at, lengths[at]
    while first > 0 and used + lengths[first - 1] <= room - 2 * (first > 1):
        first -= 1
        used += lengths[first]
    line = [name, Segment("… ", DIM)] if first else [name]
    start, spans = name.cell_length + 2 * bool(first), []
    for index in range(first, len(tokens)):
        line.append(Segment(f" {tokens[index]} ", styles[index]))
        spans.append((start, start + lengths[index], index))
        start += lengths[index]
        if start >= width:
            break
    return line, spans


_SMALL = 60
_ROOMY = 110
_NARROWEST = 20
_LINES = 4  # the header, the two token lines and the hints

Purpose = Literal["text", "target", "search", "export"]
# A line holds no line breaks: they are shown, and typed, as signs.
_SIGNS = str.maketrans("⏎⇥", "\n\t")


class Prompt(Input):
    """Asks for a line; enter answers, escape leaves everything as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "close")]

    @dataclass
    class Answered(Message):
        """What was typed, and for what."""

        purpose: Purpose
        text: str

    purpose: Purpose = "text"

    def __init__(self) -> None:
        super().__init__(id="prompt", select_on_focus=False)
        self.display = False

    def ask(self, purpose: Purpose, text: str) -> None:
        """Open, with a text to begin from."""
        self.purpose = purpose
        self.border_title = f"{SAID['prompts'][purpose]} · enter, or escape"
        self.value = printable(text)
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def action_close(self) -> None:
        self.screen.set_focus(None)
        self.display = False

    async def action_submit(self) -> None:
        self.action_close()
        self.post_message(self.Answered(self.purpose, self.value.translate(_SIGNS)))


class Panels(Vertical):
    """Everything on the screen: the map, beside it all heads and one row, under it the tokens and the plain command."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="panels")
        self._scene = scene

    def compose(self) -> ComposeResult:
        yield HeaderLine(id="header")
        with Horizontal(id="body"):
            with Vertical(id="side"):
                yield Thumbnails(id="heads")
                yield HeadFacts(id="facts")
            yield AttentionMap(id="map")
            yield RowBars(id="row")
        yield TokenStrip(id="tokens")
        yield CommandLine(id="command")
        yield Prompt()
        yield HintLine(id="hints")

    def on_mount(self) -> None:
        self.show(self._scene)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size.width, event.size.height)

    def show(self, scene: Scene) -> None:
        self._scene = scene
        for widget in self.query(Drawn):
            widget.show(scene)
        for name, title in panel_titles(scene).items():
            # As rich's text, for Textual takes brackets in a string for markup, and a token may be "[MASK]".
            self.query_one(f"#{name}").border_title = Text(title)
        self.query_one("#heads").border_subtitle = "0 to 1" if scene.view.one_scale else "own scales"
        self.query_one("#map").border_subtitle = "rows: input → next token" if scene.record.next_tokens else ""
        self._arrange(self.size.width, self.size.height)

    def say(self, message: str, *, is_error: bool = False) -> None:
        self.query_one(HintLine).say(message, is_error=is_error)

    def ask(self, purpose: Purpose, text: str) -> None:
        """Open a line to type into; `Prompt.Answered` tells what was typed."""
        self.say("")
        self.query_one(Prompt).ask(purpose, text)

    def _arrange(self, width: int, height: int) -> None:
        """Columns of the panels beside the map, and lines of those that change; 0: not shown."""
        layers, heads = self._scene.record.weights.shape[:2]
        # Every head of a layer; frames and numbers of layers take 7 columns.
        needed = [max(_NARROWEST, heads * (side + 1) + 7) for side in (6, 4, 2)]
        side, row = next((one for one in needed if one <= width // 3), width // 3), min(40, width // 4)
        if width < _ROOMY:
            side, row = (0, 0) if width < _SMALL else (min(needed[-1], width // 4), width // 4 + 3)
        for name, cells in (("side", side), ("row", row)):
            panel = self.query_one(f"#{name}")
            panel.display = cells > 0
            panel.styles.width = cells or 1
        command = min(len(command_lines(self._scene, width)), max(1, height // 8))
        self.query_one("#command").styles.height = command
        # The panel under the thumbnails gets what the smallest of them leave.
        left = height - command - _LINES - (2 * layers + 4)
        self.query_one("#facts").styles.height = max(3, min(_MOST_FACTS + 2, left))


def panel_titles(scene: Scene) -> dict[str, str]:
    """What stands in the frames."""
    view, place = scene.view, scene.view.place
    statistics = scene.reading.statistics_of(place)
    title = {
        "head": f"layer {place.layer}, head {place.head}" + (" − the marked head" if view.against else ""),
        "mean": f"layer {place.layer}, mean of its heads",
        "rollout": f"rollout through layers 0 to {place.layer}",
    }[view.combined]
    return {
        "heads": "heads",
        "map": f"{title} · {view.quantity}",
        "row": f"row of {scene.queries[view.row]}" if view.signed else f"where {scene.queries[view.row]} looks",
        "facts": f"head {place.head}" if statistics is None else statistics.role,
    }
