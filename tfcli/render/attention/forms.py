"""A view of attention in all its forms: for the terminal, as SVG, as a page, as CSV and as JSON."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from tfcli.records.attention import AttentionDifference, AttentionEdges, AttentionEvolution, AttentionRecord
from tfcli.records.generation import Candidate
from tfcli.render.as_json import to_json
from tfcli.render.attention.csv import attention_table
from tfcli.render.attention.difference import AttentionDifferenceView, difference_table
from tfcli.render.attention.edges import AttentionEdgeList, edges_table
from tfcli.render.attention.evolution import AttentionEvolutionView, evolution_table
from tfcli.render.attention.html import attention_html
from tfcli.render.attention.matrix import difference_matrix
from tfcli.render.attention.overview import AttentionOverview
from tfcli.render.attention.row import AttentionRow
from tfcli.render.attention.scores import AttentionScores, scores_svg
from tfcli.render.attention.svg import attention_svg, matrices_svg
from tfcli.render.attention.table import AttentionTable
from tfcli.render.picture import picture_html, picture_svg
from tfcli.render.table_csv import Table, to_csv

MOST_NUMBERS = 2_000_000
"""Weights in a page or in JSON; a longer text's page has the chosen heads alone."""


@dataclass(frozen=True)
class Forms:
    """One view; `svg` and `html` are None where files show what the terminal does."""

    view: Any
    json: Callable[[], Any]
    table: Callable[[], Table]
    svg: Callable[[], str] | None = None
    html: Callable[[], str] | None = None

    def text(self, ending: str) -> str | None:
        """What a file with that ending holds; None: no such form."""
        if ending == ".svg":
            return picture_svg(self.view) if self.svg is None else self.svg()
        if ending == ".html":
            return picture_html(self.view) if self.html is None else self.html()
        if ending == ".csv":
            return to_csv(self.table())
        return json.dumps(self.json(), allow_nan=False) + "\n" if ending == ".json" else None


def heads_forms(
    records: Sequence[AttentionRecord], layer: int | None, head: int | None, *, scores: bool = False, kept: int = 0
) -> Forms:
    """Weights: of all heads small and of one as a table; or its scores beside its weights.

    Args:
        records: the last is the one that is drawn, at its focus.
        layer, head: what CSV and JSON hold; None: all, and then the terminal has the overview.
        kept: so many first keys stand apart.
    """
    drawn = records[-1]
    place = drawn.focus
    first = (layer or 0, head or 0)
    chosen = [record.narrowed(layer, head) for record in records]

    def html() -> str:
        if sum(record.weights.size for record in records) <= MOST_NUMBERS:
            return attention_html(records)
        return attention_html(chosen, layer=first[0], head=first[1])

    def table() -> Table:
        return attention_table(chosen, first)

    if scores:
        beside = AttentionScores(drawn, *place, kept)
        return Forms(beside, lambda: to_json(chosen), table, lambda: scores_svg(beside), html)
    view: Any = AttentionTable(drawn, *place, kept)
    if layer is None and head is None and drawn.weights[..., 0, 0].size > 1:
        view = Group(AttentionOverview(drawn), Text(""), view)
    return Forms(view, lambda: to_json(chosen), table, lambda: attention_svg(drawn, *place, kept), html)


def row_forms(record: AttentionRecord, predicted: Sequence[Candidate], layer: int | None, head: int | None) -> Forms:
    """One query.

    Args:
        record: has that row alone. predicted: what comes behind it, the likeliest first.
        layer, head: what CSV and JSON hold; None: all.
    """
    chosen = [record.narrowed(layer, head)]
    first = (layer or 0, head or 0)
    return Forms(
        AttentionRow(record, *record.focus, tuple(predicted)),
        lambda: {**to_json(chosen), "predicted": to_json(list(predicted))},
        lambda: attention_table(chosen, first),
        lambda: attention_svg(record, *record.focus),
        lambda: attention_html(chosen, layer=first[0], head=first[1]),
    )


def edges_forms(edges: AttentionEdges) -> Forms:
    """The strongest weights as a list."""
    return Forms(AttentionEdgeList(edges), lambda: to_json(edges), lambda: edges_table(edges))


def difference_forms(difference: AttentionDifference, kept: int = 0) -> Forms:
    """One attention less another."""
    return Forms(
        AttentionDifferenceView(difference, kept),
        lambda: to_json(difference),
        lambda: difference_table(difference),
        lambda: matrices_svg([difference_matrix(difference, kept)]),
    )


def evolution_forms(evolution: AttentionEvolution) -> Forms:
    """A head by step."""
    return Forms(AttentionEvolutionView(evolution), lambda: to_json(evolution), lambda: evolution_table(evolution))
