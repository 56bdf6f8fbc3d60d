"""The keys, said once: for the bindings, the help and the line of hints."""

from dataclasses import dataclass

from rich.table import Column, Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static


@dataclass(frozen=True)
class Key:
    """Keys as Textual names them, how they are written, the action, and what it does.

    Args:
        hint: a word for the line of hints; "" for the help alone.
    """

    keys: str
    written: str
    action: str
    words: str
    hint: str = ""


KEYS = (
    Key("up", "← ↑ ↓ →", "move(-1, 0)", "move the cursor: a query and a key", "cursor"),
    Key("down", "", "move(1, 0)", ""),
    Key("left", "", "move(0, -1)", ""),
    Key("right", "", "move(0, 1)", ""),
    Key("home", "home end", "move(0, -1000000)", "to the first or the last key"),
    Key("end", "", "move(0, 1000000)", ""),
    Key("pageup", "pgup pgdn", "move(-10, 0)", "ten queries up or down"),
    Key("pagedown", "", "move(10, 0)", ""),
    Key("l,full_stop", "h l  or  , .", "head(1)", "the head before or behind", "head"),
    Key("h,comma", "", "head(-1)", ""),
    Key("j,right_square_bracket", "k j  or  [ ]", "layer(1)", "the layer below or above", "layer"),
    Key("k,left_square_bracket", "", "layer(-1)", ""),
    Key("t,tab", "t  or  tab", "kind", "the kind of attention: encoder's, decoder's, cross", "kind"),
    Key("w", "w", "change('requantified')", "scores before the softmax, or weights behind it", "scores"),
    Key("r", "r", "change('recombined')", "the mean of the layer's heads, the rollout, one head", "mean"),
    Key("s", "s", "change('rescaled')", "colours on a linear or logarithmic scale, or row by row", "scale"),
    Key("a", "a", "switch('one_scale')", "small maps on their own colour scales, or all on one"),
    Key("c", "c", "change('recolored')", "the colour map: cividis, viridis", "colours"),
    Key("b", "b", "background", "a light or a dark background", "light"),
    Key("d", "d", "difference", "mark this head; then, on another one, the difference", "difference"),
    Key("o", "o", "switch('sorted')", "bars with the largest first, or in the order of the keys", "order"),
    Key("z", "z", "switch('zoomed')", "a large map cropped around the cursor, or whole", "zoom"),
    Key("e", "e", "edit", "another text", "edit"),
    Key("E", "E", "edit_target", "another target; an empty one is the model's translation"),
    Key("slash", "/  n", "search", "find a token, and the next one that is found", "search"),
    Key("n", "", "search_on", ""),
    Key("x", "x", "export", "write this head as .svg, .html, .csv or .json", "export"),
    Key("question_mark", "?", "help", "these keys", "help"),
    Key("q,ctrl+c", "q", "quit", "leave; the plain command of the last view is printed", "quit"),
)


def hints() -> list[tuple[str, str]]:
    """The keys worth a place on the screen, each with a word, the first part of its writing alone; help and leaving,
    which every screen has room for, come first."""
    found = [(key.written.split("  ")[0], key.hint) for key in KEYS if key.hint]
    return found[-2:] + found[:-2]


class HelpScreen(ModalScreen[None]):
    """The keys over everything else; any key leaves it."""

    def compose(self) -> ComposeResult:
        table = Table.grid(Column(no_wrap=True, style="bold"), Column(), padding=(0, 2))
        for key in KEYS:
            if key.words:  # one row for keys that belong together
                table.add_row(Text(key.written), Text(key.words))
        box = Static(table, id="help")
        box.border_title, box.border_subtitle = "keys", "any key goes back"
        yield box

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss()

    def on_click(self) -> None:
        self.dismiss()
