"""What is looked at as a file: what `tfcli inspect attention` writes of the same view."""

from dataclasses import replace
from pathlib import Path

from tfcli.errors import TfcliError, UsageError
from tfcli.explorer.command_line import plain_command
from tfcli.explorer.scene import Scene
from tfcli.inspection.attention.comparison import against_head
from tfcli.outputs import require_output, with_tilde, write_output
from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.forms import Forms, difference_forms, heads_forms
from tfcli.render.picture import captioned

ENDINGS = ".svg .html .csv or .json"


def export(scene: Scene, name: str) -> Path:
    """Write what is looked at; the end of the name says in which form. Returns where it is.

    Raises:
        UsageError: the name has another end, or is that of a folder. TfcliError: it cannot be written.
    """
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise UsageError(f"{name!r} is a folder", "name a file in it")
        require_output(path, "The file")
        text = forms(scene).text(path.suffix.lower())
        if text is None:
            raise UsageError(f"The name {name!r} does not say what to write", f"let it end in {ENDINGS}")
        if path.suffix.lower() in (".svg", ".html"):
            text = captioned(text, with_tilde(plain_command(scene)), with_tilde(scene.run), scene.reading.text)
        write_output(path, "The file", text)
    except (OSError, RuntimeError) as error:  # the latter of a "~name" that is nobody's
        raise TfcliError(f"Cannot write {name!r}: {error}", "choose another name") from error
    return path


def forms(scene: Scene) -> Forms:
    """The forms of a view: of a difference, or of a head, a mean or a rollout."""
    view, record = scene.view, _record(scene)
    if view.against is not None:
        return difference_forms(against_head(record, (view.against.layer, view.against.head)))
    head = view.place.head if view.combined == "head" else None
    return heads_forms([record], view.place.layer, head, scores=view.quantity == "scores")


def _record(scene: Scene) -> AttentionRecord:
    """The record with what is looked at in focus."""
    place, record = scene.view.place, scene.record
    if scene.view.combined != "head":
        combined = scene.reading.rollouts if scene.view.combined == "rollout" else scene.reading.means
        return replace(combined[place.kind], focus=(place.layer, 0))
    record = replace(record, focus=(place.layer, place.head))
    return record if scene.view.quantity == "scores" else replace(record, scores=None, bias=None)
