"""A widget that is drawn line by line, with rich's segments."""

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tfcli.explorer.scene import Scene
from tfcli.explorer.state import View
from tfcli.render.cells import Line


class Look(Message):
    """Somebody has clicked on something, and wants this view."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view


class Drawn(Widget):
    """Shows a scene: whoever has drawn for it says how with `draw`."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.scene: Scene | None = None
        self._lines: list[Line] | None = None

    def show(self, scene: Scene) -> None:
        """Draw this scene from now on."""
        self.scene = scene
        self.redraw()

    def redraw(self) -> None:
        """Draw once more: what it depends on has changed."""
        self._lines = None
        self.refresh()

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """The lines of a scene in an area."""
        raise NotImplementedError

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        """What a click on a point of the content chooses; None: nothing."""
        return None

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        view = None if offset is None or self.scene is None else self.clicked(self.scene, *offset)
        if view is not None:
            self.post_message(Look(view))

    def on_resize(self) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """What Textual asks for: a line of the content."""
        style = self.visual_style.rich_style
        if self._lines is None:
            self._lines = [] if self.scene is None else self.draw(self.scene, *self.size)
        line = self._lines[y] if y < len(self._lines) else [Segment("")]
        return Strip(line).apply_style(style).adjust_cell_length(self.size.width, style)
