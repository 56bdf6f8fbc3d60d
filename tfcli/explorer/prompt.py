"""One line to type into, at the bottom of the screen."""

from typing import ClassVar, Literal

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tfcli.render.safe import printable

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
