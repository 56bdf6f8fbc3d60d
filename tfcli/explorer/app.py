"""The explorer: panels around a map, and the keys that move it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.worker import get_current_worker

from tfcli.errors import TfcliError
from tfcli.explorer.bar_lines import CommandLine, HeaderLine, HintLine
from tfcli.explorer.bars import RowBars
from tfcli.explorer.command_line import plain_command
from tfcli.explorer.drawn import Drawn
from tfcli.explorer.export import export
from tfcli.explorer.facts import HeadFacts
from tfcli.explorer.help_screen import HelpScreen
from tfcli.explorer.keys import KEYS
from tfcli.explorer.layout import CSS, command_height, facts_height, panel_titles, panel_widths
from tfcli.explorer.map_widget import AttentionMap
from tfcli.explorer.prompt import Prompt
from tfcli.explorer.reading import Reading
from tfcli.explorer.scene import Scene
from tfcli.explorer.search import found_tokens
from tfcli.explorer.state import View, following
from tfcli.explorer.thumbnails import Thumbnails
from tfcli.explorer.token_strip import TokenStrip

Read = Callable[[str, str | None], Reading]
"""Runs the model on a text and a target."""

_LINES = 4  # the header, the two token lines and the hints
_AT_ONCE = {"tab", "ctrl+c"}  # Textual has uses of its own for them


class Explorer(App[str]):
    """Shows a reading; what it returns is the plain command of the last view.

    Args:
        run: the run directory as it was named; checkpoint: which of its weights.
        color_system: rich's name of what the terminal shows; None: no colour.
    """

    CSS = CSS
    TITLE = "tfcli explore"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(one, key.action, show=False, priority=one in _AT_ONCE) for key in KEYS for one in key.keys.split(",")
    ]

    def __init__(self, read: Read, reading: Reading, run: str, checkpoint: str, color_system: str | None) -> None:
        super().__init__()
        self._read = read
        self.fault: Exception | None = None
        self.scene = Scene(run, checkpoint, reading, reading.first_view(), color_system)
        self._searched = ""

    def compose(self) -> ComposeResult:
        """The panels, from the top to the bottom."""
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
        self.screen.set_focus(None)
        self._show(self.scene)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size.width, event.size.height)

    @property
    def view(self) -> View:
        """What is looked at and how."""
        return self.scene.view

    def _look(self, view: View) -> None:
        """Go on to another view."""
        self.query_one(HintLine).say("")
        self._show(replace(self.scene, view=view))

    def _show(self, scene: Scene) -> None:
        self.scene = scene
        for widget in self.screen_stack[0].query(Drawn):
            widget.show(scene)
        for name, title in panel_titles(scene).items():
            self.screen_stack[0].query_one(f"#{name}").border_title = title
        self._arrange(self.size.width, self.size.height)

    def _arrange(self, width: int, height: int) -> None:
        screen = self.screen_stack[0]
        for name, columns in panel_widths(self.scene, width, height).items():
            panel = screen.query_one(f"#{name}")
            panel.display = columns > 0
            panel.styles.width = columns or 1
        command = command_height(self.scene, width, height)
        screen.query_one("#command").styles.height = command
        screen.query_one("#facts").styles.height = facts_height(self.scene, height - command - _LINES)

    # Keys, in the order of `keys.KEYS`.

    def action_move(self, rows: int, columns: int) -> None:
        self._look(self.view.moved(self.scene.record, rows, columns))

    def action_head(self, step: int) -> None:
        self._look(self.view.to_head(self.scene.record, self.view.place.head + step))

    def action_layer(self, step: int) -> None:
        self._look(self.view.to_layer(self.scene.record, self.view.place.layer + step))

    def action_kind(self) -> None:
        reading = self.scene.reading
        if self.focused is not None:  # tab in the prompt
            return
        if len(reading.records) == 1:
            self._say("This model has one kind of attention.")
        else:
            self._look(self.view.to_kind(reading.record(following(reading.kinds(), self.view.place.kind))))

    def action_quantity(self) -> None:
        self._look(self.view.requantified())

    def action_combine(self) -> None:
        self._look(self.view.recombined())

    def action_scale(self) -> None:
        self._look(self.view.rescaled())

    def action_colors(self) -> None:
        self._look(self.view.recolored())

    def action_difference(self) -> None:
        view = self.view.differing()
        self._look(view)
        if view.marked == view.place:
            self._say("Marked. Choose another head and press d again to see the difference from this one.")

    def action_order(self) -> None:
        self._look(replace(self.view, sorted=not self.view.sorted))

    def action_zoom(self) -> None:
        self._look(replace(self.view, zoomed=not self.view.zoomed))

    def action_edit(self) -> None:
        self._ask().ask("text", self.scene.reading.text)

    def action_edit_target(self) -> None:
        if "cross" in self.scene.reading.kinds():
            self._ask().ask("target", self.scene.reading.target or "")
        else:
            self._say("This model reads one text: only an encoder-decoder has a target.", is_error=True)

    def action_search(self) -> None:
        self._ask().ask("search", self._searched)

    def action_search_on(self) -> None:
        self._find(self._searched)

    def action_export(self) -> None:
        place = self.view.place
        self._ask().ask("export", f"{place.kind}-layer{place.layer}-head{place.head}.svg")

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    async def action_quit(self) -> None:
        self.exit(plain_command(self.scene))

    def _ask(self) -> Prompt:
        self._say("")
        return self.query_one(Prompt)

    def _say(self, message: str, *, is_error: bool = False) -> None:
        self.query_one(HintLine).say(message, is_error=is_error)

    @on(AttentionMap.Chosen)
    def _cell_chosen(self, event: AttentionMap.Chosen) -> None:
        self._look(self.view.at(self.scene.record, event.row, event.column))

    @on(Thumbnails.Chosen)
    def _head_chosen(self, event: Thumbnails.Chosen) -> None:
        record = self.scene.record
        self._look(self.view.to_layer(record, event.layer).to_head(record, event.head))

    @on(TokenStrip.Chosen)
    def _token_chosen(self, event: TokenStrip.Chosen) -> None:
        row = self.view.row if event.row is None else event.row
        column = self.view.column if event.column is None else event.column
        self._look(self.view.at(self.scene.record, row, column))

    @on(Prompt.Answered)
    def _answered(self, event: Prompt.Answered) -> None:
        if event.purpose == "search":
            self._find(event.text)
        elif event.purpose == "export":
            self._export(Path(event.text).expanduser())
        else:
            reading = self.scene.reading
            self._say("The model reads …")
            if event.purpose == "text":
                self._reread(event.text, reading.target)
            else:
                self._reread(reading.text, event.text or None)

    @work(thread=True, exclusive=True)
    def _reread(self, text: str, target: str | None) -> None:
        worker = get_current_worker()
        try:
            reading = self._read(text, target)
        except TfcliError as error:
            if not worker.is_cancelled:
                self.call_from_thread(self._say, str(error), is_error=True)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._read_on, reading)

    def _read_on(self, reading: Reading) -> None:
        self._say("")
        self._show(replace(self.scene, reading=reading, view=reading.kept_view(self.view)))

    def _find(self, text: str) -> None:
        """The next query, or else key, of that text becomes the cursor's."""
        self._searched, record = text, self.scene.record
        rows, columns = found_tokens(record.query_tokens, text), found_tokens(record.key_tokens, text)
        if rows:
            after = [row for row in rows if row > self.view.row]
            self._look(self.view.at(record, (after or rows)[0], self.view.column))
        elif columns:
            after = [column for column in columns if column > self.view.column]
            self._look(self.view.at(record, self.view.row, (after or columns)[0]))
        else:
            self._say(f"No token contains “{text}”.", is_error=True)

    def _export(self, path: Path) -> None:
        try:
            export(self.scene, path)
        except TfcliError as error:
            self._say(str(error), is_error=True)
        else:
            self._say(f"Written: {path}")

    def _handle_exception(self, error: Exception) -> None:
        """A fault ends the explorer; the command line says it in a sentence, Textual would print a traceback."""
        self.fault = self.fault or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
