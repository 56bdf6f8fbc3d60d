"""Where the panels are, and the colours around them: on a small screen they shrink, then go."""

from textual.theme import Theme

from tfcli.explorer.bar_lines import command_lines
from tfcli.explorer.facts import MOST
from tfcli.explorer.paint import CURSOR
from tfcli.explorer.scene import Scene
from tfcli.render.colors import hexadecimal

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
#heads, #map, #row, #facts { border: round $frame; border-title-color: $quiet; }
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


def panel_widths(scene: Scene, width: int) -> dict[str, int]:
    """Columns of the panels beside the map; 0: not shown."""
    if width < _SMALL:
        return {"side": 0, "row": 0}
    if width < _ROOMY:
        return {"side": min(_thumbnails_width(scene, 2), width // 4), "row": width // 4 + 3}
    widths = [_thumbnails_width(scene, side) for side in (6, 4, 2)]
    side = next((wanted for wanted in widths if wanted <= width // 3), width // 3)
    return {"side": side, "row": min(40, width // 4)}


def _thumbnails_width(scene: Scene, side: int) -> int:
    """Columns of a panel with every head of a layer, each so wide; frames and numbers of layers take 7."""
    return max(_NARROWEST, scene.record.weights.shape[1] * (side + 1) + 7)


def command_height(scene: Scene, width: int, height: int) -> int:
    """Lines of the plain command: all of them where the screen is high enough."""
    return min(len(command_lines(scene, width)), max(1, height // 8))


def facts_height(scene: Scene, body: int) -> int:
    """Lines of the panel under the thumbnails, which get what the smallest of them need."""
    thumbnails = 2 * scene.record.weights.shape[0] + 4
    return max(3, min(MOST + 2, body - thumbnails))


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
