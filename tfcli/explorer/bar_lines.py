"""The single lines: above the panels what is shown, below them the plain command, then the keys or what went wrong."""

from pathlib import Path

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.export import folded, plain_words
from tfcli.explorer.keys import hints
from tfcli.explorer.paint import BOLD, DIM, mark_style
from tfcli.explorer.scene import Scene
from tfcli.render.attention.words import KIND_NAMES
from tfcli.render.cells import Line
from tfcli.render.safe import fit, printable


class HeaderLine(Drawn):
    """The run and the head."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """On the left where we are, on the right how it is shown."""
        view, place = scene.view, scene.view.place
        layers, heads = scene.record.weights.shape[:2]
        where = [KIND_NAMES[place.kind], f"layer {place.layer} of {layers}"]
        if view.combined == "head":
            where.append(f"head {place.head} of {heads}")
        else:
            where.append("mean of its heads" if view.combined == "mean" else "rollout")
        how = ["row by row" if view.scale == "row" else view.scale, "blue to red" if view.signed else view.palette]
        if view.marked is not None:
            how.insert(0, f"marked: layer {view.marked.layer}, head {view.marked.head}")
        left = f"{printable(Path(scene.run).name)}  {' · '.join(where)}"
        right = ", ".join(how) if width >= 100 else ""
        room = width - 8 - cell_len(right)
        return [
            [Segment(" tfcli ", mark_style(scene.color_system)), Segment(fit(left, room), BOLD), Segment(right, DIM)]
        ]


class CommandLine(Drawn):
    """The command that prints what is looked at."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """On as many lines as the layout gives; what is longer is cut, and printed whole at the end."""
        lines = command_lines(scene, width)
        if len(lines) > height:
            lines = [*lines[: height - 1], f"{lines[height - 1]} …"]
        mark = mark_style(scene.color_system)
        return [
            [Segment("  " if number else "$ ", mark), Segment(fit(line, width - 2), BOLD)]
            for number, line in enumerate(lines)
        ]


def command_lines(scene: Scene, width: int) -> list[str]:
    """The plain command for a terminal of that width; nothing in it can steer the terminal."""
    return folded([printable(word) for word in plain_words(scene)], width - 2)


class HintLine(Drawn):
    """The keys; in their place, until something else is done, what went wrong or is going on."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._message = ""
        self._is_error = False

    def say(self, message: str, *, is_error: bool = False) -> None:
        """Show a sentence; "" shows the keys again."""
        self._message, self._is_error = message, is_error
        self.redraw()

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """The sentence, or as many keys as fit."""
        if self._message:
            in_color = scene.color_system is not None
            style = Style(bold=True, color="rgb(229,50,50)" if self._is_error and in_color else None)
            return [[Segment(fit(printable(self._message), width), style)]]
        line: Line = []
        left = width
        for key, word in hints():
            length = cell_len(key) + len(word) + 3
            if length > left:
                break
            line += [Segment(key, BOLD), Segment(f" {word}  ", DIM)]
            left -= length
        return [line]
