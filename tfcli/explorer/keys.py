"""The keys, said once: for the bindings, the help and the line of hints."""

from dataclasses import dataclass


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
    Key("w", "w", "quantity", "scores before the softmax, or weights behind it", "scores"),
    Key("r", "r", "combine", "the mean of the layer's heads, the rollout, one head", "mean"),
    Key("s", "s", "scale", "colours on a linear or logarithmic scale, or row by row", "scale"),
    Key("c", "c", "colors", "the colour map: cividis, viridis", "colours"),
    Key("b", "b", "background", "a light or a dark background", "light"),
    Key("d", "d", "difference", "mark this head; then, on another one, the difference", "difference"),
    Key("o", "o", "order", "bars with the largest first, or in the order of the keys", "order"),
    Key("z", "z", "zoom", "a large map cropped around the cursor, or whole", "zoom"),
    Key("e", "e", "edit", "another text", "edit"),
    Key("E", "E", "edit_target", "another target; an empty one is the model's translation"),
    Key("slash", "/", "search", "find a token", "search"),
    Key("n", "n", "search_on", "the next one that was found"),
    Key("x", "x", "export", "write this head as .svg, .html, .csv or .json", "export"),
    Key("question_mark", "?", "help", "these keys", "help"),
    Key("q,ctrl+c", "q", "quit", "leave; the plain command of the last view is printed", "quit"),
)


def help_rows() -> list[tuple[str, str]]:
    """What is written of a key, and what it does; one row for keys that belong together."""
    return [(key.written, key.words) for key in KEYS if key.words]


def hints() -> list[tuple[str, str]]:
    """The keys worth a place on the screen, each with a word, the first part of its writing alone; help and leaving,
    which every screen has room for, come first."""
    found = [(key.written.split("  ")[0], key.hint) for key in KEYS if key.hint]
    return found[-2:] + found[:-2]
