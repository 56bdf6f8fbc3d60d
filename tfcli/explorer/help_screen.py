"""The keys, over everything else."""

from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static

from tfcli.explorer.keys import help_rows


class HelpScreen(ModalScreen[None]):
    """Any key leaves it."""

    def compose(self) -> ComposeResult:
        """A table."""
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column()
        for written, words in help_rows():
            table.add_row(Text(written), Text(words))
        box = Static(table, id="help")
        box.border_title = "keys"
        box.border_subtitle = "any key goes back"
        yield box

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss()

    def on_click(self) -> None:
        self.dismiss()
