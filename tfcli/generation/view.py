"""Generated text, filled masks, traces and beam trees in the terminal."""

import tomllib
from collections import Counter, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from tfcli.draw import Stepwise, View
from tfcli.draw.numbers import percent, percent_in_four, plural
from tfcli.draw.safe import fit, printable, shortened, token_label, widest
from tfcli.draw.tables import bar, dim, heading
from tfcli.inspection.predictions.view import Row, candidate_bars, row_layout
from tfcli.records.generation import BeamTree, Candidate, Classified, Filled, Generated, Tagged, Told, Trace, TraceStep


@dataclass(frozen=True)
class GeneratedView(View[Generated]):
    """The prompt, the continuation, and how likely it was; a translation stands under its source."""

    translation: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        made = self.record
        prompt, text = (printable(one, keep_newlines=True) for one in (made.prompt, made.text))
        yield Text.assemble((prompt, "dim"), "\n→ " if self.translation else "", text)
        count = len(made.token_ids)
        each = f", {made.score / count:.2f} a token" if count else ""
        yield Text(f"{plural(count, 'token')}, log-probability {made.score:.2f}{each}", style="dim")


class FilledView(View[Filled]):
    """Every mask's candidates with bars for their probabilities, then the text with the best of each. Where masks were
    filled one after the other, each says when, and its candidates are those of its turn."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        filled = self.record
        yield Text(printable(filled.prompt, keep_newlines=True), style="dim")
        for number, candidates in enumerate(filled.predictions, start=1):
            turn = "" if filled.order is None else f", filled {_ordinal(filled.order[number - 1] + 1)}"
            yield Text(f"mask {number} of {len(filled.predictions)}{turn}", style="bold")
            yield from candidate_bars(candidates, None, options.max_width, ascii_only=options.ascii_only)
        yield Text(printable(filled.text, keep_newlines=True))


class TaskView(View[Told]):
    """A text with the probabilities of its labels, with a tag behind each word, or with the answer found in it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        told = self.record
        if isinstance(told, Tagged):
            room = widest(tuple(printable(one.word) for one in told.words))
            for one in told.words:
                word, sure = fit(printable(one.word), room), "" if one.probability is None else percent(one.probability)
                yield Text.assemble(word, f" {sure:>7}  ", (printable(one.tag or "-"), "bold"))
            return
        yield Text(printable(told.prompt, keep_newlines=True), style="dim")
        if isinstance(told, Classified):
            labels = [Candidate(one.label, one.probability) for one in told.labels]
            yield from candidate_bars(labels, None, options.max_width, ascii_only=options.ascii_only)
            return
        answer = printable(told.answer, keep_newlines=True)
        yield Text.assemble((answer, "bold"), (f"  {percent(told.probability)}", "dim"))


def _ordinal(number: int) -> str:
    """A place in an order.

    >>> _ordinal(1), _ordinal(12), _ordinal(22)
    ('1st', '12th', '22nd')
    """
    return str(number) + ("th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th"))


_AROUND = 9  # cells of a candidate beside its label and its bar: its sign, its percentage, blanks
_LONGEST_LABEL = 16


@dataclass(frozen=True)
class TraceView(View[Trace]):
    """Candidates stand in the order of their probability, as many as fit, the chosen one always among them. The bars
    show probabilities under the model itself; what penalties and filters ruled out is dim and marked."""

    translation: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        steps, ascii_only = self.record.steps, options.ascii_only
        width = options.max_width
        chosen_width = max(5, widest(tuple(token_label(step.token) for step in steps)))
        room = min(chosen_width, _LONGEST_LABEL if width >= 100 else _LONGEST_LABEL // 2)
        layout = row_layout([step.options for step in steps], width - (5 + room + 5 + 7) - 1, _AROUND)
        chosen, ruled_out = _signs(ascii_only)
        yield Text(f"step {fit('token', room)}    p chance  candidates", style="bold")
        for number, step in enumerate(steps, start=1):
            yield _row(number, step, room, layout, ascii_only)
        yield from dim(f"p: under the model itself   chance: in the draw   {chosen} chosen   {ruled_out} ruled out")
        yield GeneratedView(self.record.generated, self.translation)


@dataclass(frozen=True)
class InferenceView(Stepwise[Trace]):
    """Inference one token at a time: what the model has read, what may come, what came; then the whole trace."""

    translation: bool = False

    def parts(self) -> list[RenderableType]:
        """A picture a token, and the trace."""
        drawings = tomllib.loads((files(__package__) / "inference.toml").read_text("utf-8"))
        drawing, nothing = drawings["encoder-decoder" if self.translation else "decoder"], "nothing but the start"
        parts, source, made = list[RenderableType](), self.record.generated.prompt, ""
        for step in self.record.steps:
            text, so_far = (printable(one) or nothing for one in (source + made, made))
            read = Text(drawing.format(text=text, source=printable(source), so_far=so_far).rstrip())
            parts.append(Group(read, StepView(step)))
            made += step.token
        return [Text("Inference, one token at a time", "bold"), *parts, TraceView(self.record, self.translation)]


class StepView(View[TraceStep]):
    """The candidates of one token, and the one that came."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        step = self.record
        shown = [Candidate(one.token, one.probability) for one in step.options]
        yield from candidate_bars(shown, step.token, options.max_width, ascii_only=options.ascii_only)
        chance = "the likeliest is taken" if step.chance == 1 else f"drawn with chance {percent(step.chance)}"
        yield Text.assemble((token_label(step.token), "bold"), (f": {chance}, and joins the text", "dim"))


def _row(number: int, step: TraceStep, room: int, layout: Row, ascii_only: bool) -> Text:
    row = Text(no_wrap=True, overflow="crop").append(f"{number:>4} ", "dim")
    row.append(fit(token_label(step.token), room), "bold")
    row.append(f" {percent_in_four(step.probability)}   {percent_in_four(step.chance)} ")
    options = list(step.options[: layout.count])
    if all(option.token_id != step.token_id for option in options):
        options[layout.count - 1 :] = [option for option in step.options if option.token_id == step.token_id]
    chosen, ruled_out = _signs(ascii_only)
    for option in options:
        is_chosen = option.token_id == step.token_id
        is_out = option.chance == 0 and not is_chosen
        sign = chosen if is_chosen else ruled_out if is_out else " "
        style = "bold" if is_chosen else "dim" if is_out else ""
        row.append(f" {sign} {fit(token_label(option.token), layout.label)} ", style)
        drawn = bar(option.probability, layout.bar, ascii_only=ascii_only)
        row.append(drawn.ljust(layout.bar), "dim" if is_out else "cyan")
        row.append(f" {percent_in_four(option.probability)}", style)
    return row


def _signs(ascii_only: bool) -> tuple[str, str]:
    return (">", "x") if ascii_only else ("▸", "×")


_Signs = namedtuple("_Signs", "start chosen ended pruned fork last_fork trunk total")
_UNICODE = _Signs("○", "●", "✓", pruned="✂", fork="├─ ", last_fork="└─ ", trunk="│", total="Σ ln p")
_ASCII = _Signs("o", "*", "+", pruned="x", fork="|- ", last_fork="`- ", trunk="|", total="sum")


class BeamTreeView(View[BeamTree]):
    """A row begins with its step and ln p of its first token there, and ends with the sum and the fate of its last one.
    What was kept for a single step, and what was pruned at once, stands together on a row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tree, signs = self.record, _ASCII if options.ascii_only else _UNICODE
        title = f"Beam search · beam {tree.beam} · length penalty {tree.length_penalty:g}"
        fates = Counter(node.fate for node in tree.nodes)
        counts = ", ".join(f"{fates[fate]} {fate}" for fate in ("kept", "ended", "pruned"))
        steps = plural(1 + max((node.step for node in tree.nodes), default=-1), "step")
        yield from heading(title, f"{steps}; {plural(len(tree.nodes), 'extension')} looked at: {counts}")
        yield from _Drawing(tree, signs, options.max_width).rows()
        ended, pruned = f"{signs.ended} ended: rank, ln p over length penalty", f"{signs.pruned} pruned: at which step"
        yield from dim(f"{signs.chosen} chosen   {ended}   {pruned}")
        for number, text in enumerate(tree.texts, start=1):
            line = Text().append(f"{number}. ", "dim")
            yield line.append(printable(text.text, keep_newlines=True), "bold" if number == 1 else "")


class _Branch(NamedTuple):
    """A branch on one line, and the nodes it begins and ends with; no end where several share the line."""

    text: str
    first: int
    last: int | None = None


_RIGHT = 23
_LEAST_ROOM = 20


class _Drawing:
    """The rows of a tree. A trunk, the way to the chosen text, with what left it above each of its nodes."""

    def __init__(self, tree: BeamTree, signs: _Signs, width: int) -> None:
        self._prompt, self._nodes, self._signs = tree.prompt, tree.nodes, signs
        self._room = max(width - 15 - _RIGHT, 24)
        self._last_step = max((node.step for node in tree.nodes), default=0)
        self._children: dict[int | None, list[int]] = {}
        self._worth = [(node.chosen, node.fate == "ended", node.step, node.score) for node in tree.nodes]
        for number, node in enumerate(tree.nodes):
            self._children.setdefault(node.parent, []).append(number)
        for number in reversed(range(len(tree.nodes))):
            if (parent := tree.nodes[number].parent) is not None:
                self._worth[parent] = max(self._worth[parent], self._worth[number])
        ended = [number for number, node in enumerate(tree.nodes) if node.fate == "ended"]
        ended.sort(key=lambda number: tree.nodes[number].ranking, reverse=True)
        self._rank = {number: rank for rank, number in enumerate(ended, start=1)}

    def rows(self) -> Iterator[Text]:
        start = Text(no_wrap=True, overflow="crop").append("step     ln p  ", "dim")
        start.append(fit(f"{self._signs.start} {printable(self._prompt)}", self._room))
        yield start.append(f"  {self._signs.total:>7}  fate", style="dim")
        parent = None
        while lived := self._extensions(parent):
            trunk, *others = lived
            for branch in self._branches(others, self._room, trunk_goes_on=True):
                yield self._branch_row(branch)
            if pruned := self._extensions(parent, pruned=True):
                yield self._pruned_row(pruned)
            node = self._nodes[trunk]
            row = self._begun(trunk).append(fit(f"{self._signs.chosen} {token_label(node.token)}", self._room), "bold")
            yield row.append(self._end(trunk), "bold" if node.fate == "ended" else "")
            parent = trunk

    def _extensions(self, number: int | None, *, pruned: bool = False) -> list[int]:
        """Those of a node (None: the start): that lived on, most telling first, or pruned, most probable first."""
        found = [n for n in self._children.get(number, []) if (self._nodes[n].fate == "pruned") == pruned]
        return sorted(found, key=lambda n: self._nodes[n].score if pruned else self._worth[n], reverse=True)

    def _branches(self, siblings: Sequence[int], room: int, *, trunk_goes_on: bool = False) -> list[_Branch]:
        """Nodes with one parent, each with all that came of it; those of which nothing came share one line."""
        lived = [n for n in siblings if self._nodes[n].fate == "ended" or self._extensions(n)]
        brief = [n for n in siblings if n not in lived]
        blocks = [self._block(n, room - 3) for n in lived]
        if brief:
            blocks.append([_Branch(self._labels(brief, room - 3), brief[0])])
        branches = []
        for place, block in enumerate(blocks):
            is_last = place == len(blocks) - 1 and not trunk_goes_on
            fork, trunk = (self._signs.last_fork, " ") if is_last else (self._signs.fork, self._signs.trunk)
            for row, branch in enumerate(block):
                branches.append(branch._replace(text=(trunk + "  " if row else fork) + branch.text))
        return branches

    def _block(self, number: int, room: int) -> list[_Branch]:
        """A branch's own line, and below it what left it, the latest first, so that no two lines cross."""
        text, last = self._label(number), number
        leaving: dict[int, list[int]] = {}
        while following := self._extensions(last):  # to the chosen end, else one that ended, else the longest
            last, *others = following
            if others:
                leaving.setdefault(min(cell_len(text) + 1, max(room - _LEAST_ROOM, 0)), []).extend(others)
            text += f" {self._label(last)}"
        branches = [_Branch(shortened(text, room), number, last)]
        columns = sorted(leaving)
        while columns:
            column = columns.pop()
            before = "".join(self._signs.trunk if cell in columns else " " for cell in range(column))
            below = self._branches(leaving[column], room - column)
            branches += [branch._replace(text=before + branch.text) for branch in below]
        return branches

    def _labels(self, numbers: Sequence[int], room: int) -> str:
        """As many labels with their ln p as there is room for, and how many are missing."""
        shown = ""
        for rest, number in zip(reversed(range(len(numbers))), numbers, strict=True):
            one = f"{self._label(number)} {self._nodes[number].log_probability:.2f}"
            if shown and cell_len(f"{shown}  {one}" + f"  +{rest}" * bool(rest)) > room:
                return f"{shown}  +{rest + 1}"
            shown = f"{shown}  {one}" if shown else one
        return shown

    def _label(self, number: int) -> str:
        return shortened(token_label(self._nodes[number].token), _LONGEST_LABEL)

    def _branch_row(self, branch: _Branch) -> Text:
        row = self._begun(branch.first, with_probability=branch.last is not None)
        row.append(fit(branch.text, self._room), "dim" if branch.last is None else "")
        if branch.last is None:
            return row.append(f"{'':>9}  {self._fate(branch.first)}", "dim")
        return row.append(self._end(branch.last), "" if self._nodes[branch.last].fate == "ended" else "dim")

    def _pruned_row(self, numbers: list[int]) -> Text:
        row = self._begun(numbers[0], with_probability=False).append(self._signs.fork, "dim")
        room = self._room - len(self._signs.fork)
        labels = self._labels(numbers, room)
        row.append(labels, "dim strike").append(" " * (room - cell_len(labels)))
        return row.append(f"{'':>9}  {self._signs.pruned} at once", "dim")

    def _begun(self, number: int, *, with_probability: bool = True) -> Text:
        node = self._nodes[number]
        probability = f"{node.log_probability:9.2f}" if with_probability else " " * 9
        return Text(no_wrap=True, overflow="crop").append(f"{node.step + 1:>4}{probability}  ", "dim")

    def _end(self, number: int) -> str:
        return f"{self._nodes[number].score:>9.2f}  {self._fate(number)}"

    def _fate(self, number: int) -> str:
        node = self._nodes[number]
        if node.fate == "ended":
            return f"{self._signs.ended} {self._rank[number]}. {node.ranking:.2f}"
        if node.chosen:
            return ""
        return "given up" if node.step == self._last_step else f"{self._signs.pruned} at {node.step + 2}"
