"""What the explorer computes for a text, and the files that it writes of it."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tfcli.draw.colors import SIGNED, WEIGHTS, Brush, brush_of
from tfcli.draw.heatmap import Line
from tfcli.draw.safe import printable, token_label
from tfcli.draw.svg import captioned
from tfcli.errors import TfcliError, UsageError
from tfcli.explorer.state import View
from tfcli.files import packaged
from tfcli.inspection.attention import AttentionDifference, AttentionHeads, AttentionKind, AttentionRecord
from tfcli.inspection.attention.choice import AttentionChoice
from tfcli.inspection.attention.compute import attention_record, chosen_attention
from tfcli.inspection.attention.matrix_view import head_sums, labels
from tfcli.inspection.attention.view import AttentionForms
from tfcli.inspection.heads import Head, HeadStatistics
from tfcli.inspection.heads.find import Material
from tfcli.inspection.heads.roles import heads_on
from tfcli.inspection.heads.statistics import Copies, copies
from tfcli.inspection.interventions import by_head, heads_of, rerun, sides
from tfcli.inspection.passes import KINDS, ModelPass, read_text, record_model
from tfcli.inspection.predictions.compute import named
from tfcli.inspection.words import attention_in_words
from tfcli.models.head import require_head
from tfcli.outputs import require_output, with_tilde, write_output
from tfcli.runs.load import LoadedRun

SAID = packaged(__file__, "explorer.toml")
FIRST_TEXTS: dict[str, str] = SAID["first_texts"]  # what is shown before anybody has typed a text, by architecture
Found = AttentionHeads | AttentionDifference
Map = NDArray[np.float32]
_LEAST = 1e-4  # where the logarithmic scale begins: smaller weights look like this one
CURSOR = (224, 36, 130)  # A pink that is in none of the maps, and can be read on black and on white
DIM = Style(dim=True)
BOLD = Style(bold=True)


@dataclass(frozen=True)
class ReadText:
    """A text, its target if given, a record for every kind of attention that the model has, and statistics of every
    head, none for a text of one token. `without` says what is predicted at a query without a head of a kind."""

    text: str
    target: str | None
    records: tuple[AttentionRecord, ...]
    statistics: tuple[HeadStatistics, ...]
    without: Callable[[AttentionKind, tuple[int, int], int], str] = field(default=lambda *_: "", compare=False)
    _found: dict[tuple[AttentionKind, AttentionChoice], Found] = field(default_factory=dict, init=False, compare=False)

    def record(self, kind: AttentionKind, *, words: bool = False) -> AttentionRecord:
        [found] = [record for record in (self._in_words if words else self.records) if record.kind == kind]
        return found

    @cached_property
    def _in_words(self) -> tuple[AttentionRecord, ...]:
        return tuple(map(attention_in_words, self.records))

    def found(self, view: View) -> Found:
        """What a view looks at: a head, a mean, a rollout or a difference. The last one is kept."""
        asked = view.place.kind, view.choice
        if asked not in self._found:
            found = chosen_attention([self.record(view.place.kind)], view.choice)
            assert isinstance(found, AttentionHeads | AttentionDifference)
            self._found.clear()
            self._found[asked] = found
        return self._found[asked]

    def kinds(self) -> tuple[AttentionKind, ...]:
        return tuple(record.kind for record in self.records)

    def statistics_of(self, place: Head) -> HeadStatistics | None:
        return next((one for one in self.statistics if Head(one.kind, one.layer, one.head) == place), None)

    def first_view(self) -> View:
        """The head that says most, of cross-attention if there is any; the cursor on the last row's largest."""
        record = self.records[-1]
        layer, head = record.focus
        rows = record.weights[layer, head]
        return View(Head(record.kind, layer, head), row=len(rows) - 1, column=int(rows[-1].argmax()))

    def kept_view(self, view: View) -> View:
        """A view of another text, moved to where this one has something to show."""
        return view.at(self.record(view.place.kind, words=view.words), view.row, view.column)

    def reworded(self, view: View) -> View:
        """A view of words that was one of pieces: the cursor on the word of its piece; the other way, on the last."""
        whole = self.record(view.place.kind)
        row, column = (
            next(n for n, word in enumerate(words) if at in word.places) if view.words else words[at].places[-1]
            for at, words in ((view.row, whole.query_words), (view.column, whole.key_words))
        )
        return replace(view, row=row, column=column)


@dataclass(frozen=True)
class TextReader:
    """A run that reads one text after another; what does not depend on the text is measured once."""

    run: LoadedRun

    @cached_property
    def _copies(self) -> Copies:
        return copies(self.run)

    def read(self, text: str, target: str | None = None) -> ReadText:
        """Run the model on a text; a UsageError where it is too long, or the model takes no target."""
        run = self.run
        kinds, inputs = KINDS[run.architecture], read_text(run, text, target, remark=False)
        with torch.inference_mode():
            passed = record_model(run.model, inputs.tensors(run.device))
        records = tuple(attention_record(run, kind, inputs, passed) for kind in kinds)
        is_measurable = all(len(record.key_tokens) > 1 and len(record.query_tokens) > 1 for record in records)
        alone = Material("the text", (inputs,), False, {})
        statistics = heads_on(run, kinds, alone, lambda _: passed, self._copies) if is_measurable else ()
        return ReadText(text, target, records, statistics, partial(_without, run, passed))


@torch.inference_mode()
def _without(run: LoadedRun, passed: ModelPass, kind: AttentionKind, head: tuple[int, int], position: int) -> str:
    """What is predicted at a position when a head (layer, head) mixes nothing, in words. A UsageError where the model
    predicts no tokens. Positions are of the side that the head looks from; where that does not predict, the last."""
    require_head(run.config.model)
    mixed, part = passed.attentions(kind)[head[0]].mixed, heads_of(kind, head[0])
    values = by_head(mixed, torch.zeros_like(mixed))[head[1]]
    hidden = passed.last.hidden, rerun(run.model, passed, part, values[None])[0]
    at = position if len(sides(passed)) == 1 or part.side == "decoder" else -1
    before, after = (named(run, run.model.head(one[at]).softmax(-1)) for one in hidden)
    best, then = run.tokenizer.labels([int(before.argmax()), int(after.argmax())])
    share = f"p({token_label(best)}) {before.max():.3f} → {after[before.argmax()]:.3f}"
    new = "" if best == then else f"; likeliest then {token_label(then)} {after.max():.3f}"
    return f"Without {kind.removesuffix('_self')} head {head[0]}.{head[1]}: {share}{new}."


@dataclass(frozen=True)
class MapValues:
    """What a map shows: `numbers` (T, S) as they are written, NaN where a query may not look; `shades` (T, S) as they
    are painted, from `low` to `high`; what is written at the `ends` of the scale, and what a number is."""

    numbers: Map
    shades: Map
    low: float
    high: float
    ends: tuple[str, str]
    meaning: str
    signed: bool


@dataclass(frozen=True)
class Scene:
    """A text, a view of it, the run directory as it was named with the checkpoint, and what the terminal can show:
    colours, by rich's name of them, or None; and whether its background is light."""

    run: str
    checkpoint: str
    reading: ReadText
    view: View
    color_system: str | None
    light: bool = False

    @cached_property
    def record(self) -> AttentionRecord:
        return self.reading.record(self.view.place.kind, words=self.view.words)

    @cached_property
    def queries(self) -> tuple[str, ...]:
        return labels(self.record.asking)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return labels(self.record.key_tokens)

    @cached_property
    def values(self) -> MapValues:
        return map_values(self.reading, self.view)

    @cached_property
    def weights(self) -> Map:
        """The weights of the head that is looked at, NaN where a query may not look."""
        return self.record.visible_weights(self.view.place.layer, self.view.place.head)

    @property
    def cursor(self) -> tuple[int, int]:
        return self.view.row, self.view.column


def map_values(reading: ReadText, view: View) -> MapValues:
    """What the map of a view shows."""
    numbers, meaning = _numbers(reading, view)
    shades, high = numbers, float(np.nanmax(np.abs(numbers), initial=0.0)) if view.signed else 1.0
    low, ends = -high if view.signed else 0.0, (f"-{high:.3g}" if view.signed else "0", f"{high:.3g}")
    if np.isnan(numbers).all():
        low, ends = 0.0, ("0", "0")
    elif view.scale == "row":  # every row divided by its largest distance from 0
        largest = np.abs(np.nan_to_num(numbers)).max(axis=1, keepdims=True)
        shades = np.divide(numbers, np.where(largest == 0.0, 1.0, largest), dtype=np.float32)
        low, high, ends = -1.0 if view.signed else 0.0, 1.0, ("-row's largest" if view.signed else "0", "row's largest")
    elif view.scale == "log" and not view.signed:
        shades, ends = np.log10(np.maximum(numbers, _LEAST)), (f"≤{_LEAST:.0e}", ends[1])
        low, high = (float(np.log10(number)) for number in (_LEAST, max(high, _LEAST)))
    return MapValues(numbers, shades, low, high=high, ends=ends, meaning=meaning, signed=view.signed)


def _numbers(reading: ReadText, view: View) -> tuple[Map, str]:
    found, kind = reading.found(view), view.place.kind
    if isinstance(found, AttentionDifference):
        return found.visible_differences, f"weight here − weight in {found.names[1]}"
    [record] = found.records
    layer, head = record.focus
    weights = record.visible_weights(layer, head)
    if found.scores:
        assert record.scores is not None
        return np.where(np.isnan(weights), np.float32(np.nan), record.scores[layer, head]), "score before the softmax"
    meanings = {
        "mean": f"mean of {reading.record(kind).weights.shape[1]} heads",
        "rollout": "share of a token in what a query has become",
        "head": f"weight, {head_sums(record, layer, head)}",
    }
    return weights, meanings[view.combined]


def map_brush(view: View, color_system: str | None, *, small: bool = False) -> Brush:
    """The brush of the main map, of two sides for what is signed; and that of the small maps, which show weights."""
    return brush_of(SIGNED if view.signed and not small else WEIGHTS, color_system)


@cache
def cursor_style(color_system: str | None) -> Style:
    """The cursor's own mark, unlike any colour of the maps; without colour, reversed."""
    if color_system is None:
        return Style(bold=True, reverse=True)
    return Style(bold=True, color=Color.from_rgb(0, 0, 0), bgcolor=Color.from_rgb(*CURSOR))


@cache
def mark_style(color_system: str | None) -> Style:
    """Words and lines in the cursor's colour."""
    return Style(bold=True) if color_system is None else Style(bold=True, color=Color.from_rgb(*CURSOR))


@dataclass
class Look(Message):
    """Somebody has clicked on something, and wants this view."""

    view: View


class Drawn(Widget):
    """Shows a scene: whoever has drawn for it says how with `draw`."""

    scene: Scene | None = None
    _lines: list[Line] | None = None

    def show(self, scene: Scene) -> None:
        self.scene = scene
        self.redraw()

    def redraw(self) -> None:
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


def export(scene: Scene, name: str) -> Path:
    """Write what is looked at, in the form that the end of the name says; a TfcliError where that cannot be."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise UsageError(f"{name!r} is a folder", "name a file in it")
        require_output(path, "The file")
        text = AttentionForms(scene.reading.found(scene.view)).text(path.suffix.lower())
        if text is None:
            raise UsageError(f"The name {name!r} does not say what to write", "let it end in .svg .html .csv or .json")
        if path.suffix.lower() in (".svg", ".html"):
            text = captioned(text, with_tilde(plain_command(scene)), with_tilde(scene.run), scene.reading.text)
        write_output(path, "The file", text)
    except (OSError, RuntimeError) as error:  # the latter of a "~name" that is nobody's
        raise TfcliError(f"Cannot write {name!r}: {error}", "choose another name") from error
    return path


def plain_words(scene: Scene) -> list[str]:
    """The words of a command that shows the same head of the same text, quoted for the shell."""
    place, reading = scene.view.place, scene.reading
    options = scene.view.choice.options()
    if reading.target is not None:
        options += ["--target", reading.target]
    if len(reading.records) > 1:
        options += ["--kind", place.kind]
    if scene.checkpoint != "best":
        options += ["--checkpoint", scene.checkpoint]
    what = [scene.run, reading.text]
    # After "--" a word is never an option.
    words = [*options, "--", *what] if any(word.startswith("-") for word in what) else [*what, *options]
    command = ["tfcli", "inspect", "attention", *map(shlex.quote, words)]
    # "-" stands for stdin, so that is where a text of one dash comes from.
    return ["printf", "-", "|", *command] if reading.text == "-" else command


def command_lines(scene: Scene, width: int) -> list[str]:
    """The plain command for a terminal of that width; nothing in it can steer the terminal."""
    return folded(list(map(printable, plain_words(scene))), width - 2)


def plain_command(scene: Scene) -> str:
    """The command as one line."""
    return " ".join(plain_words(scene))


def folded(words: list[str], width: int) -> list[str]:
    r"""A command on lines that the shell takes as one: all but the last end on a \. Options keep their values.

    >>> folded(["tfcli", "explore", "run", "--head", "2"], 16)
    ['tfcli explore \\', '  run --head 2']
    """
    parts: list[str] = []  # an option is one with its value
    for word in words:
        option = parts[-1] if parts else ""
        if option.startswith("--") and option != "--" and " " not in option and not word.startswith("--"):
            parts[-1] = f"{option} {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if cell_len(lines[-1]) + 1 + cell_len(part) <= width - 2:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"  {part}")
    return lines
