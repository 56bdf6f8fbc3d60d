"""The panels of the screen: they show a scene, ask for a line and say a sentence."""

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tfcli.explorer.bar_lines import CommandLine, HeaderLine, HintLine
from tfcli.explorer.bars import RowBars
from tfcli.explorer.drawn import Drawn
from tfcli.explorer.facts import HeadFacts
from tfcli.explorer.layout import command_height, facts_height, panel_titles, panel_widths
from tfcli.explorer.map_widget import AttentionMap
from tfcli.explorer.prompt import Prompt, Purpose
from tfcli.explorer.scene import Scene
from tfcli.explorer.thumbnails import Thumbnails
from tfcli.explorer.token_strip import TokenStrip

_LINES = 4  # the header, the two token lines and the hints


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
        self._arrange(self.size.width, self.size.height)

    def say(self, message: str, *, is_error: bool = False) -> None:
        """A sentence in the place of the keys; "" brings them back."""
        self.query_one(HintLine).say(message, is_error=is_error)

    def ask(self, purpose: Purpose, text: str) -> None:
        """Open a line to type into; `Prompt.Answered` tells what was typed."""
        self.say("")
        self.query_one(Prompt).ask(purpose, text)

    def _arrange(self, width: int, height: int) -> None:
        for name, columns in panel_widths(self._scene, width).items():
            panel = self.query_one(f"#{name}")
            panel.display = columns > 0
            panel.styles.width = columns or 1
        command = command_height(self._scene, width, height)
        self.query_one("#command").styles.height = command
        self.query_one("#facts").styles.height = facts_height(self._scene, height - command - _LINES)
