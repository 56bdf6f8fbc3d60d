"""What is looked at as a file: what `tfcli inspect attention` writes of the same view."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfcli.errors import TfcliError, UsageError
from tfcli.explorer.scene import Scene
from tfcli.files import require_writable, write_text
from tfcli.inspection.attention.comparison import against_head
from tfcli.inspection.attention.focus import narrowed
from tfcli.records.attention import AttentionRecord
from tfcli.render.as_json import to_json
from tfcli.render.attention.csv import attention_table
from tfcli.render.attention.difference import AttentionDifferenceView, difference_table
from tfcli.render.attention.html import attention_html
from tfcli.render.attention.matrix import difference_matrix
from tfcli.render.attention.scores import AttentionScores, scores_svg
from tfcli.render.attention.svg import attention_svg, matrices_svg
from tfcli.render.picture import picture_html
from tfcli.render.table_csv import Table, to_csv

ENDINGS = ".svg .html .csv or .json"
_LARGEST = 8
_MOST_NUMBERS = 2_000_000  # in a page; a longer text's page has the chosen head alone


@dataclass(frozen=True)
class Forms:
    """A view in every form."""

    svg: Callable[[], str]
    html: Callable[[], str]
    table: Callable[[], Table]
    json: Callable[[], Any]

    def text(self, ending: str) -> str | None:
        """What a file with that ending holds; None: no such form."""
        if ending == ".svg":
            return self.svg()
        if ending == ".html":
            return self.html()
        if ending == ".csv":
            return to_csv(self.table())
        return json.dumps(self.json(), allow_nan=False) + "\n" if ending == ".json" else None


def export(scene: Scene, name: str) -> Path:
    """Write what is looked at; the end of the name says in which form. Returns where it is.

    Raises:
        UsageError: the name has another end, or is that of a folder. TfcliError: it cannot be written.
    """
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise UsageError(f"{name!r} is a folder", "name a file in it")
        require_writable(path.parent)
        text = forms(scene).text(path.suffix.lower())
        if text is None:
            raise UsageError(f"The name {name!r} does not say what to write", f"let it end in {ENDINGS}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except (OSError, RuntimeError) as error:  # the latter of a "~name" that is nobody's
        raise TfcliError(f"Cannot write {name!r}: {error}", "choose another name") from error
    return path


def forms(scene: Scene) -> Forms:
    """The forms of a view: of a difference, or of a head, a mean or a rollout."""
    place, marked = scene.view.place, scene.view.marked
    record = _record(scene)
    layer, head = record.focus
    if scene.view.compared and marked is not None:
        difference = against_head(record, (marked.layer, marked.head), _LARGEST)
        return Forms(
            lambda: matrices_svg([difference_matrix(difference)]),
            lambda: picture_html(AttentionDifferenceView(difference)),
            lambda: difference_table(difference),
            lambda: to_json(difference),
        )
    is_head = scene.view.combined == "head"
    chosen, first = [narrowed(record, place.layer, place.head if is_head else None)], (place.layer, head)

    def svg() -> str:
        if scene.view.quantity == "scores":
            return scores_svg(AttentionScores(record, layer, head))
        return attention_svg(record, layer, head)

    def html() -> str:
        if record.weights.size <= _MOST_NUMBERS:
            return attention_html([record])
        return attention_html(chosen, layer=first[0], head=first[1])

    return Forms(svg, html, lambda: attention_table(chosen, first), lambda: to_json(chosen))


def _record(scene: Scene) -> AttentionRecord:
    """The record with what is looked at in focus."""
    place, record = scene.view.place, scene.record
    if scene.view.combined != "head":
        combined = scene.reading.rollouts if scene.view.combined == "rollout" else scene.reading.means
        return replace(combined[place.kind], focus=(place.layer, 0))
    record = replace(record, focus=(place.layer, place.head))
    return record if scene.view.quantity == "scores" else replace(record, scores=None, bias=None)
