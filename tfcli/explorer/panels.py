"""The panels of the screen: where they are, the colours around them, and the line to type into.

On a small screen they shrink, then go.
"""

from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.theme import Theme
from textual.widgets import Input

from tfcli.explorer.bar_lines import CommandLine, HeaderLine, HintLine, command_lines
from tfcli.explorer.bars import MOST, HeadFacts, RowBars
from tfcli.explorer.drawn import Drawn
from tfcli.explorer.map_widget import AttentionMap
from tfcli.explorer.paint import CURSOR
from tfcli.explorer.scene import Scene
from tfcli.explorer.thumbnails import Thumbnails
from tfcli.explorer.token_strip import TokenStrip
from tfcli.render.colors import hexadecimal
from tfcli.render.safe import printable

THEMES = tuple(
    Theme(
        name,
        primary=map_frame,
        background=background,
        foreground=text,
        surface=line,
        dark=name == "dark",
        variables={"frame": frame, "quiet": quiet, "mark": hexadecimal(CURSOR)},
    )
    for name, background, line, text, frame, quiet, map_frame in (
        ("dark", "#0d1117", "#161b22", "#e6edf3", "#30363d", "#8b949e", "#58a6ff"),
        ("light", "#ffffff", "#eef1f4", "#1f2328", "#c4cad1", "#59636e", "#0969da"),
    )
)

CSS = """
Screen { background: $background; color: $foreground; }
#panels { height: 1fr; }
#header { height: 1; background: $surface; }
#body { height: 1fr; }
#heads, #map, #row, #facts { border: round $frame; border-title-color: $quiet; border-subtitle-color: $quiet; }
#map { width: 1fr; border: round $primary 60%; border-title-color: $foreground; }
#side { width: 30; }
#heads { height: 1fr; }
#facts { height: 8; }
#row { width: 34; }
#tokens { height: 2; }
#command { height: 1; background: $surface; }
#prompt { height: 3; border: round $mark; background: $background; padding: 0 1; }
#prompt:focus { border: round $mark; }
#hints { height: 1; }
HelpScreen { align: center middle; }
#help { width: auto; max-width: 78; height: auto; border: round $mark; background: $surface; padding: 0 2; }
"""

_SMALL = 60
_ROOMY = 110
_NARROWEST = 20
_LINES = 4  # the header, the two token lines and the hints

Purpose = Literal["text", "target", "search", "export"]

_TITLES: dict[Purpose, str] = {
    "text": "text",
    "target": "target; empty: the model's own translation",
    "search": "find a token",
    "export": "write this head to a file: .svg .html .csv .json",
}
# A line holds no line breaks: they are shown, and typed, as signs.
_SIGNS = {"⏎": "\n", "⇥": "\t"}


class Prompt(Input):
    """Asks for a line; enter answers, escape leaves everything as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "close")]

    class Answered(Message):
        """What was typed, and for what."""

        def __init__(self, purpose: Purpose, text: str) -> None:
            super().__init__()
            self.purpose: Purpose = purpose
            self.text = text

    def __init__(self, id: str) -> None:
        super().__init__(id=id, select_on_focus=False)
        self.purpose: Purpose = "text"
        self.display = False

    def ask(self, purpose: Purpose, text: str = "") -> None:
        """Open, with a text to begin from."""
        self.purpose = purpose
        self.border_title = f"{_TITLES[purpose]} · enter, or escape"
        self.value = printable(text)
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def action_close(self) -> None:
        """Escape: go away."""
        self.screen.set_focus(None)
        self.display = False

    async def action_submit(self) -> None:
        """Enter: answer."""
        text = self.value
        for sign, character in _SIGNS.items():
            text = text.replace(sign, character)
        self.action_close()
        self.post_message(self.Answered(self.purpose, text))


class Panels(Vertical):
    """Everything on the screen, from the top to the bottom."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="panels")
        self._scene = scene

    def compose(self) -> ComposeResult:
        """The map in the middle, beside it all heads and one row, under it the tokens and the plain command."""
        yield HeaderLine("header")
        with Horizontal(id="body"):
            with Vertical(id="side"):
                yield Thumbnails("heads")
                yield HeadFacts("facts")
            yield AttentionMap("map")
            yield RowBars("row")
        yield TokenStrip("tokens")
        yield CommandLine("command")
        yield Prompt("prompt")
        yield HintLine("hints")

    def on_mount(self) -> None:
        self.show(self._scene)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size.width, event.size.height)

    def show(self, scene: Scene) -> None:
        """Draw this scene from now on."""
        self._scene = scene
        for widget in self.query(Drawn):
            widget.show(scene)
        for name, title in panel_titles(scene).items():
            # As rich's text, for Textual takes brackets in a string for markup, and a token may be "[MASK]".
            self.query_one(f"#{name}").border_title = Text(title)
        self.query_one("#heads").border_subtitle = "one scale" if scene.view.one_scale else "own scales"
        self._arrange(self.size.width, self.size.height)

    def say(self, message: str, *, is_error: bool = False) -> None:
        """A sentence in the place of the keys; "" brings them back."""
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
        for name, columns in (("side", side), ("row", row)):
            panel = self.query_one(f"#{name}")
            panel.display = columns > 0
            panel.styles.width = columns or 1
        command = min(len(command_lines(self._scene, width)), max(1, height // 8))
        self.query_one("#command").styles.height = command
        # The panel under the thumbnails gets what the smallest of them leave.
        left = height - command - _LINES - (2 * layers + 4)
        self.query_one("#facts").styles.height = max(3, min(MOST + 2, left))


def panel_titles(scene: Scene) -> dict[str, str]:
    """What stands in the frames."""
    view, place = scene.view, scene.view.place
    statistics = scene.reading.statistics_of(place)
    if view.against is not None:
        title = f"layer {place.layer}, head {place.head} − the marked head"
    elif view.combined == "mean":
        title = f"layer {place.layer}, mean of its heads"
    elif view.combined == "rollout":
        title = f"rollout through layers 0 to {place.layer}"
    else:
        title = f"layer {place.layer}, head {place.head}"
    return {
        "heads": "heads",
        "map": f"{title} · {view.quantity}",
        "row": f"{'row of' if view.signed else 'where'} {scene.queries[view.row]}{'' if view.signed else ' looks'}",
        "facts": f"head {place.head}" if statistics is None else statistics.role,
    }
