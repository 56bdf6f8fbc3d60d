"""The explorer: panels around a map, and the keys that move it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.theme import Theme
from textual.worker import get_current_worker

from tfcli.draw.colors import hexadecimal
from tfcli.errors import TfcliError
from tfcli.explorer.panels import KEYS, HelpScreen, Panels, Prompt, Purpose
from tfcli.explorer.scene import CURSOR, SAID, Look, ReadText, Scene, export, plain_command
from tfcli.explorer.state import View, following

Read = Callable[[str, str | None], ReadText]  # runs the model on a text and a target

_AT_ONCE = {"tab", "ctrl+c"}  # Textual has uses of its own for them


class Explorer(App[str]):
    """Shows a reading, as `Scene` says of the arguments; what it returns is the plain command of the last view."""

    CSS_PATH = "explorer.tcss"
    TITLE = "tfcli explore"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(one, key.action, show=False, priority=one in _AT_ONCE) for key in KEYS for one in key.keys.split(",")
    ]

    def __init__(
        self, read: Read, reading: ReadText, run: str, checkpoint: str, color_system: str | None, *, light: bool = False
    ) -> None:
        super().__init__()
        for theme in SAID["themes"]:
            self.register_theme(Theme(**theme | {"variables": theme["variables"] | {"mark": hexadecimal(CURSOR)}}))
        self.theme = "light" if light else "dark"
        self._read = read
        self.fault: Exception | None = None
        self.scene = Scene(run, checkpoint, reading, view=reading.first_view(), color_system=color_system, light=light)
        self._panels = Panels(self.scene)
        self._searched = ""

    def compose(self) -> ComposeResult:
        yield self._panels

    @property
    def view(self) -> View:
        return self.scene.view

    def _look(self, view: View) -> None:
        if view.words != self.view.words:
            view = self.scene.reading.reworded(view)
        self._show(replace(self.scene, view=view))

    def _show(self, scene: Scene) -> None:
        self.scene = scene
        self.theme = "light" if scene.light else "dark"
        self._panels.say("")
        self._panels.show(scene)

    # Keys, in the order of `explorer.toml`.

    def action_move(self, rows: int, columns: int) -> None:
        self._look(self.view.moved(self.scene.record, rows, columns))

    def action_head(self, step: int) -> None:
        self._look(self.view.to_head(self.scene.record, self.view.place.head + step))

    def action_layer(self, step: int) -> None:
        self._look(self.view.to_layer(self.scene.record, self.view.place.layer + step))

    def action_kind(self) -> None:
        reading = self.scene.reading
        if len(self.screen_stack) > 1:  # tab over the help
            self.pop_screen()
        elif self.focused is not None:  # tab in the prompt
            return
        elif len(reading.records) == 1:
            self._panels.say("This model has one kind of attention.")
        else:
            kind = following(reading.kinds(), self.view.place.kind)
            self._look(self.view.to_kind(reading.record(kind, words=self.view.words)))

    def action_change(self, how: str) -> None:
        self._look(getattr(self.view, how)())

    def action_switch(self, field: str) -> None:
        switched: dict[str, Any] = {field: not getattr(self.view, field)}
        self._look(replace(self.view, **switched))

    def action_background(self) -> None:
        self._show(replace(self.scene, light=not self.scene.light))

    def action_difference(self) -> None:
        view = self.view.differing()
        self._look(view)
        if view.marked == view.place:
            self._panels.say("Marked. Choose another head and press d again to see the difference from this one.")

    def action_cut(self) -> None:
        view, reading = self.view, self.scene.reading
        row = reading.reworded(replace(view, words=False)).row if view.words else view.row
        try:
            said = reading.without(view.place.kind, (view.place.layer, view.place.head), row)
            self._panels.say(said if view.combined == "head" else "Choose one head first: h and l go to one.")
        except TfcliError as error:
            self._panels.say(str(error), is_error=True)

    def action_ask(self, purpose: Purpose) -> None:
        reading, place = self.scene.reading, self.view.place
        if purpose == "target" and "cross" not in reading.kinds():
            self._panels.say("This model reads one text: only an encoder-decoder has a target.", is_error=True)
            return
        texts = {"text": reading.text, "target": reading.target or "", "search": self._searched}
        self._panels.ask(purpose, texts.get(purpose, f"{place.kind}-layer{place.layer}-head{place.head}.svg"))

    def action_search_on(self) -> None:
        self._find(self._searched)

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    async def action_quit(self) -> None:
        self.exit(plain_command(self.scene))

    @on(Look)
    def _clicked(self, event: Look) -> None:
        self._look(event.view)

    @on(Prompt.Answered)
    def _answered(self, event: Prompt.Answered) -> None:
        if event.purpose == "search":
            self._find(event.text)
        elif event.purpose == "export":
            self._export(event.text)
        else:
            self._panels.say("The model reads …")
            text, target = self.scene.reading.text, self.scene.reading.target
            self._reread(*((event.text, target) if event.purpose == "text" else (text, event.text or None)))

    @work(thread=True, exclusive=True)
    def _reread(self, text: str, target: str | None) -> None:
        worker = get_current_worker()
        try:
            answer = partial(self._read_on, self._read(text, target))
        except TfcliError as error:
            answer = partial(self._panels.say, str(error), is_error=True)
        if not worker.is_cancelled:
            self.call_from_thread(answer)

    def _read_on(self, reading: ReadText) -> None:
        self._show(replace(self.scene, reading=reading, view=reading.kept_view(self.view)))

    def _find(self, text: str) -> None:
        """The next query, or else key, of that text becomes the cursor's."""
        self._searched, record = text, self.scene.record
        rows, columns = found_tokens(record.query_tokens, text), found_tokens(record.key_tokens, text)
        row, column = self.scene.cursor
        if rows:
            row = next((one for one in rows if one > row), rows[0])
        elif columns:
            column = next((one for one in columns if one > column), columns[0])
        else:
            self._panels.say(f"No token contains “{text}”.", is_error=True)
            return
        self._look(self.view.at(record, row, column))

    def _export(self, name: str) -> None:
        try:
            self._panels.say(f"Written: {export(self.scene, name)}")
        except TfcliError as error:
            self._panels.say(str(error), is_error=True)

    def _handle_exception(self, error: Exception) -> None:
        """A fault ends the explorer; the command line says it in a sentence, Textual would print a traceback."""
        self.fault = self.fault or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


def found_tokens(tokens: tuple[str, ...], text: str) -> list[int]:
    """The tokens that `text` begins in, whatever its case; a word of several tokens is found, too.

    >>> found_tokens(("<s>", "to", " the", " river", "bank"), "riverb")
    [3]
    """
    needle, owners = text.casefold(), [index for index, token in enumerate(tokens) for _ in token.casefold()]
    joined = "".join(tokens).casefold()
    begins = [at for at in range(len(joined)) if needle and joined.startswith(needle, at)]
    return list(dict.fromkeys(owners[at] for at in begins))
