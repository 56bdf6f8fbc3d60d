"""Attention in all its forms: for the terminal, as SVG, as a page, as CSV and as JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import NO_VALUE_MARK
from tfcli.draw.numbers import exact, percent, plural, weight
from tfcli.draw.safe import fit, in_room, shortened, widest
from tfcli.draw.svg import picture_html, picture_svg
from tfcli.draw.tables import CsvTable, bar, columns, dim, heading, to_csv, to_json
from tfcli.draw.themes import Theme
from tfcli.inspection.attention import (
    AttentionDifference,
    AttentionEdges,
    AttentionEvolution,
    AttentionFound,
    AttentionHeads,
    AttentionPairs,
    AttentionQuery,
    AttentionRecord,
    matrix_view,
)
from tfcli.inspection.attention.matrix_view import KIND_NAMES, Matrix, Scale, labels, placed, sides, title
from tfcli.inspection.attention.page_view import attention_html, matrices_svg
from tfcli.inspection.predictions.view import candidate_bars
from tfcli.records.generation import Candidate


def attention_view(
    record: AttentionRecord,
    kept: int = 0,
    scale: Scale = "all",
    *,
    with_overview: bool = False,
    layer: int | None = None,
) -> Group:
    """The weights of the head in focus as numbers while they fit, else as a map, and under it what to see.

    Args:
        record: The weights of all heads.
        kept: So many first keys stand apart.
        scale: Where the colours end.
        with_overview: Show all heads small above it, where there are several.
        layer: The one layer of the overview; None means all.
    """
    seen = matrix_view.look_at(record)
    parts: list[RenderableType] = [matrix_view.weights_matrix(record, kept, scale), *([Text(seen)] if seen else [])]
    num_layers, num_heads = record.weights.shape[:2]
    num_shown = num_heads if layer is not None else num_layers * num_heads
    if with_overview and num_shown > 1:
        parts = [matrix_view.attention_overview(record, scale, layer), Text(""), *parts]
    return Group(*parts)


class AttentionView(View[AttentionRecord]):
    """Of several heads all of them small; and the one in focus."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield attention_view(self.record, with_overview=True)


_AROUND = 17  # lines of a screen that a story and the commands behind a picture take
_LONGEST = 24  # cells of a label
_ROW_BAR, _EDGE_BAR = 40, 20


@dataclass(frozen=True)
class AttentionRow:
    """Where the query of a `row` looks: a line a key, in the order of the text, of many the `most` strongest; and the
    likeliest tokens behind it, where it predicts any."""

    record: AttentionRecord
    predicted: tuple[Candidate, ...] = ()
    row: int = 0
    most: int = 20

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        asking, own = (placed(side[self.row], record.rows[self.row]) for side in (record.asking, record.query_tokens))
        weights = record.weights[record.focus][self.row]
        seen = np.flatnonzero(~record.hidden(*record.focus)[self.row])
        shown = np.sort(seen[np.argsort(-weights[seen], kind="stable")[: self.most]])
        yield from heading(title(record), f"where {asking} looks, of {plural(len(seen), 'key')}; all weights sum to 1")
        names = tuple(shortened(label, _LONGEST) for label in labels(record.key_tokens))
        width = widest(tuple(names[key] for key in shown))
        room = max(4, min(_ROW_BAR, options.max_width - width - 17))
        for key in shown.tolist():
            share = float(weights[key])
            line = Text(f"  {fit(names[key], width)} {record.columns[key]:>4}  {percent(share):>7}  ")
            yield line.append(bar(share, room, ascii_only=options.ascii_only), "cyan")
        if rest := len(seen) - len(shown):
            others = float(weights[seen].sum() - weights[shown].sum())
            yield from dim(f"  {rest} others, the weaker ones: {percent(others)}")
        if len(record.rows) == 1 and (found := matrix_view.look_at(record)):
            yield Text(found)
        if self.predicted:
            yield Text(f"\nPredicted behind {own}", style="bold")
            yield from candidate_bars(self.predicted, None, options.max_width, ascii_only=options.ascii_only)


@dataclass(frozen=True)
class AttentionEnding:
    """The last picture of a recipe: the table, or, where a screen is too low for it, one word's row: the last one's,
    of cross-attention the one that finds most."""

    record: AttentionRecord
    on_screen: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, room = self.record, console.size.height - _AROUND
        table = attention_view(record)
        if not self.on_screen or len(console.render_lines(table, options, pad=False)) <= room:
            yield table
            return
        words = [at for at, word in zip(record.rows, record.query_words, strict=True) if word.kind == "word"]
        found = matrix_view.strongest(record) if record.kind == "cross" else None
        yield AttentionRow(record, row=found[0] if found else max(words, default=0), most=max(3, room - 3))


class AttentionEdgeList(View[AttentionEdges]):
    """Query → key with positions, weight and a bar, strongest first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one = self.record
        about = f"{len(one.edges)} of {plural(one.possible, 'weight')}; they hold {percent(one.share)} of all weight"
        about += f"; {plural(one.masked, 'cell')} masked, and not counted" * bool(one.masked)
        yield from heading(f"Strongest attention weights · {KIND_NAMES[one.kind]} · {one.place}", about)
        table = columns("rlrlrl", "", "query", "", "key", "weight", "")
        longest = min(_LONGEST, max(4, (options.max_width - 40) // 2))
        room = min(_EDGE_BAR, max(4, options.max_width - 2 * longest - 36))
        for edge in one.edges:
            drawn = bar(edge.weight, room, ascii_only=options.ascii_only) + " only key" * edge.only
            at, to = Text(str(edge.query), "dim"), Text(f"at {edge.key}", "dim")
            query, key = (Text(*in_room(labels((name,)), longest)) for name in (edge.row_label, edge.key_token))
            table.add_row(at, query, to, key, f"{edge.weight:.3f}", drawn)
        yield table


class AttentionPairList(View[AttentionPairs]):
    """A line a pair: the mean over all heads beside chance, its rank among the row's words, and the largest weight."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one, heads = self.record, plural(self.record.heads, "head")
        yield from heading(
            f"Attention between words · {KIND_NAMES[one.kind]} · all layers",
            f"mean: over {heads}; rank: among the words that the query may look at, without itself",
            "chance: of a query that looks alike at all that it may look at",
            f"largest: the strongest of {heads}, which is above chance in any model",
        )
        table = columns("llrrrrl", "query", "looks at", "mean", "chance", "rank", "largest", "layer, head")
        for pair in one.pairs:
            shares = weight(pair.weight), weight(pair.chance), f"{pair.rank} of {pair.others}", weight(pair.largest)
            masked = *[NO_VALUE_MARK] * len(shares), "masked: exactly 0"
            told = (*shares, f"{pair.layer}, {pair.head}") if pair.chance else masked
            table.add_row(*map(Text, labels((pair.row_label, pair.key_token))), *told)
        yield table


def pairs_table(found: AttentionPairs) -> CsvTable:
    """A row a pair and direction."""
    names = "query key query_token key_token row_label weight chance rank others largest layer head"
    return CsvTable.of(found.pairs, *names.split())


def edges_table(edges: AttentionEdges) -> CsvTable:
    """A row an edge, strongest first."""
    table = CsvTable.of(edges.edges, "query", "key", "query_token", "key_token", "weight", "row_label")
    return CsvTable(("kind", "place", *table.columns), ((edges.kind, edges.place, *row) for row in table.rows))


@dataclass(frozen=True)
class AttentionDifferenceView:
    """The map centred on 0, and under it the largest differences with both weights."""

    difference: AttentionDifference
    kept: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one, matrix = self.difference, matrix_view.difference_matrix(self.difference, self.kept)
        yield matrix
        yield Text("")
        table = columns("lrrr", "query at key", "first", "second", "difference")
        table.title, table.title_justify, table.title_style = "Largest differences", "left", "bold"
        longest = min(_LONGEST, (options.max_width - 46) // 2)
        for row, column in one.largest:
            first, second = float(one.weights[row, column]), float(one.other_weights[row, column])
            query = f"{in_room(matrix.queries[row : row + 1], longest)[0]} ({matrix.rows[row]})"
            key = f"{shortened(matrix.keys[column], longest)} ({matrix.columns[column]})"
            less = Text(f"{first - second:+.2f}", "bold")
            table.add_row(Text(f"{query} at {key}"), weight(first), weight(second), less)
        yield table if one.largest else Text("No difference: both sides are the same, cell by cell.")


def difference_table(difference: AttentionDifference) -> CsvTable:
    """A row a cell: query, key, their tokens on both sides, both weights and their difference."""
    one = difference
    rows = (
        (
            *(one.kind, one.query_positions[row], one.key_positions[column]),
            *(one.query_tokens[row], one.key_tokens[column]),
            *(one.other_query_tokens[row], one.other_key_tokens[column]),
            *(float(str(values[row, column])) for values in (one.weights, one.other_weights, one.differences)),
        )
        for row, column in np.ndindex(one.weights.shape)
    )
    names = "kind query key query_token key_token other_query_token other_key_token weight other_weight difference"
    return CsvTable(names.split(), rows)


def evolution_view(one: AttentionEvolution) -> Group:
    """Maps in order of step on one scale, and under them how sharp the head is at each."""
    count, queries, keys = one.weights.shape
    names = [f"step {exact(step.step)}" for step in one.steps]
    habits = [f"strongest: {matrix_view.HABITS}"] * (one.kind != "cross")
    visible = np.where(one.mask, one.weights, np.float32(np.nan))
    table = columns("rrrl", "step", "entropy, nats", "strongest", "query at key")
    for step in one.steps:
        edge = f"{placed(one.asking[step.row], step.row)} at {placed(one.key_tokens[step.column], step.column)}"
        figures = exact(step.step), f"{step.entropy:.2f}", weight(step.strongest)
        table.add_row(*figures, Text(edge if step.strongest else "none"))
    return Group(
        *heading(
            f"Attention weights by step · {KIND_NAMES[one.kind]} · layer {one.layer}, head {one.head}",
            f"{count} checkpoints; {queries} queries down, {keys} keys across; {sides(one)}",
        ),
        matrix_view.Thumbnails([list(zip(names, visible, strict=True))]),
        Text(""),
        table,
        *dim("entropy = −Σ w ln w of a row, the mean over rows: 0 nats looks at one key alone", *habits),
    )


def evolution_table(evolution: AttentionEvolution) -> CsvTable:
    """A row a step and cell."""
    one, head = evolution, (evolution.kind, evolution.layer, evolution.head)
    rows = (
        (*head, one.steps[at].step, row, column, one.query_tokens[row], one.key_tokens[column], float(str(value)))
        for (at, row, column), value in np.ndenumerate(one.weights)
    )
    return CsvTable(["kind", "layer", "head", "step", "query", "key", "query_token", "key_token", "weight"], rows)


@dataclass(frozen=True)
class AttentionScores:
    """Scores, what positions added to them where they did, and weights, one under the other."""

    record: AttentionRecord
    kept: int = 0
    scale: Scale = "all"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        matrices, name, about = self._parts()
        yield from heading(name, about)
        yield from matrices

    def svg(self, theme: Theme = "auto") -> str:
        """The same as an SVG document."""
        return matrices_svg(*self._parts(), theme=theme)

    def _parts(self) -> tuple[list[Matrix], str, str]:
        """The matrices, and what is above them: what is shown, the two formulas, and which side is which."""
        record, kept = self.record, self.kept
        softmax = "weights = softmax of each row's scores, masked cells left out"
        every = (("Scores", "score", record.scores), ("of which position bias", "position bias", record.bias))
        matrices = [matrix_view.scores_matrix(record, kept, one, *words) for *words, one in every if one is not None]
        matrices.append(replace(matrix_view.weights_matrix(record, kept, self.scale), title="Weights", note=""))
        return matrices, title(record, "scores and weights"), f"{record.formula}\n{softmax}\n{sides(record)}"


def attention_table(records: Sequence[AttentionRecord], first: tuple[int, int] = (0, 0)) -> CsvTable:
    """A row a weight, masked ones (0) too, from the layer and head `first` on; its score behind it where it is kept."""

    def rows() -> Iterator[tuple[object, ...]]:
        for record in records:
            queries, keys = record.rows, record.columns
            for (layer, head, query, key), value in np.ndenumerate(record.weights):
                where = (record.names[layer], "") if record.names else (layer + first[0], head + first[1])
                names = (record.query_tokens[query], record.key_tokens[key])
                # As text, a float32 has as many digits as name it exactly.
                score = () if record.scores is None else (str(record.scores[layer, head, query, key]),)
                last = record.next_predicted and query == len(queries) - 1
                behind = (record.next_tokens[query], last) if record.next_tokens else (None,) * 2
                yield (record.kind, *where, queries[query], keys[key], *names, str(value), *score, *behind[:nexts])

    nexts = 2 * any(record.next_tokens for record in records)
    columns = ["kind", "layer", "head", "query", "key", "query_token", "key_token", "weight"]
    columns += ["score"] * (records[0].scores is not None) + ["next_token", "next_predicted"][:nexts]
    return CsvTable(columns, rows())


MOST_NUMBERS = 2_000_000  # weights in a page or in JSON; a longer text's page has the chosen heads alone


_LISTS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], CsvTable]]] = {
    AttentionEdges: (AttentionEdgeList, edges_table),
    AttentionPairs: (AttentionPairList, pairs_table),
    AttentionDifference: (AttentionDifferenceView, difference_table),
    AttentionEvolution: (evolution_view, evolution_table),
}


@dataclass(frozen=True)
class AttentionForms:
    """What was asked of a text's attention, in every form. So many first keys are `kept` apart."""

    found: AttentionFound
    kept: int = 0
    scale: Scale = "all"

    def view(self) -> Any:
        """For the terminal: of several heads all of them small, and one as a table."""
        found, kept = self.found, self.kept
        if isinstance(found, AttentionDifference):
            return AttentionDifferenceView(found, kept)
        if not isinstance(found, AttentionHeads):
            return _LISTS[type(found)][0](found)
        drawn = found.records[-1]
        if isinstance(found, AttentionQuery):
            return AttentionRow(drawn, found.predicted)
        if found.scores:
            return AttentionScores(drawn, kept, self.scale)
        return attention_view(drawn, kept, self.scale, with_overview=found.head is None, layer=found.layer)

    def json(self) -> Any:
        """As JSON values."""
        if not isinstance(self.found, AttentionHeads):
            return to_json(self.found)
        more = {"predicted": to_json(self.found.predicted)} if isinstance(self.found, AttentionQuery) else {}
        return to_json(self.found.narrowed()) | more

    def table(self) -> CsvTable:
        """For CSV."""
        found = self.found
        if isinstance(found, AttentionHeads):
            return attention_table(found.narrowed(), (found.layer or 0, found.head or 0))
        return _LISTS[type(found)][1](found)

    def svg(self, theme: Theme = "auto") -> str:
        """The picture as a file."""
        found, view = self.found, self.view()
        if isinstance(found, AttentionDifference):
            return matrices_svg([matrix_view.difference_matrix(found, self.kept)], theme=theme)
        if isinstance(view, AttentionScores):
            return view.svg(theme)
        if not isinstance(found, AttentionHeads):
            return picture_svg(view, theme=theme)
        kept = 0 if isinstance(found, AttentionQuery) else self.kept
        return matrices_svg([matrix_view.weights_matrix(found.records[-1], kept, self.scale)], theme=theme)

    def html(self, theme: Theme = "auto") -> str:
        """The page: of all heads, where there are not too many numbers."""
        found = self.found
        if not isinstance(found, AttentionHeads):
            return picture_html(self.view(), theme=theme)
        every = sum(record.weights.size for record in found.records)
        if every <= MOST_NUMBERS and not isinstance(found, AttentionQuery):
            return attention_html(found.records, scale=self.scale, theme=theme)
        return attention_html(
            found.narrowed(), layer=found.layer or 0, head=found.head or 0, scale=self.scale, theme=theme
        )

    def text(self, ending: str) -> str | None:
        """What a file with that ending holds; None: no such form."""
        if ending == ".json":
            return json.dumps(self.json(), allow_nan=False) + "\n"
        if ending == ".csv":
            return to_csv(self.table())
        return self.svg() if ending == ".svg" else self.html() if ending == ".html" else None
