"""Attention in all its forms: for the terminal, as SVG, as a page, as CSV and as JSON."""

import json
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from tfcli.records.attention import (
    AttentionDifference,
    AttentionEdges,
    AttentionEvolution,
    AttentionFound,
    AttentionHeads,
    AttentionQuery,
)
from tfcli.render.as_json import to_json
from tfcli.render.attention.csv import attention_table
from tfcli.render.attention.difference import AttentionDifferenceView, difference_table
from tfcli.render.attention.edges import AttentionEdgeList, edges_table
from tfcli.render.attention.evolution import AttentionEvolutionView, evolution_table
from tfcli.render.attention.html import attention_html
from tfcli.render.attention.matrix import difference_matrix
from tfcli.render.attention.overview import AttentionOverview, Scale
from tfcli.render.attention.row import AttentionRow
from tfcli.render.attention.scores import AttentionScores, scores_svg
from tfcli.render.attention.svg import attention_svg, matrices_svg
from tfcli.render.attention.table import AttentionTable
from tfcli.render.picture import picture_html, picture_svg
from tfcli.render.table_csv import Table, to_csv

MOST_NUMBERS = 2_000_000
"""Weights in a page or in JSON; a longer text's page has the chosen heads alone."""


@dataclass(frozen=True)
class AttentionForms:
    """What was asked of a text's attention, in every form. Files show what the terminal does, where they can.

    Args:
        kept: so many first keys stand apart.
        scale: of the thumbnails: one for all heads, or each head's own.
    """

    found: AttentionFound
    kept: int = 0
    scale: Scale = "all"

    def view(self) -> Any:
        """For the terminal: of several heads all of them small, and one as a table."""
        found, kept = self.found, self.kept
        if isinstance(found, AttentionEdges):
            return AttentionEdgeList(found)
        if isinstance(found, AttentionDifference):
            return AttentionDifferenceView(found, kept)
        if isinstance(found, AttentionEvolution):
            return AttentionEvolutionView(found)
        drawn = found.records[-1]
        if isinstance(found, AttentionQuery):
            return AttentionRow(drawn, *drawn.focus, found.predicted)
        if found.scores:
            return AttentionScores(drawn, *drawn.focus, kept)
        table = AttentionTable(drawn, *drawn.focus, kept)
        if found.layer is None and found.head is None and drawn.weights[..., 0, 0].size > 1:
            return Group(AttentionOverview(drawn, self.scale), Text(""), table)
        return table

    def json(self) -> Any:
        """As JSON values."""
        if not isinstance(self.found, AttentionHeads):
            return to_json(self.found)
        records = to_json(list(self.found.narrowed()))
        if isinstance(self.found, AttentionQuery):
            return {**records, "predicted": to_json(list(self.found.predicted))}
        return records

    def table(self) -> Table:
        """For CSV."""
        found = self.found
        if isinstance(found, AttentionEdges):
            return edges_table(found)
        if isinstance(found, AttentionDifference):
            return difference_table(found)
        if isinstance(found, AttentionEvolution):
            return evolution_table(found)
        return attention_table(found.narrowed(), (found.layer or 0, found.head or 0))

    def svg(self) -> str:
        """The picture as a file."""
        if isinstance(self.found, AttentionDifference):
            return matrices_svg([difference_matrix(self.found, self.kept)])
        if not isinstance(self.found, AttentionHeads):
            return picture_svg(self.view())
        drawn = self.found.records[-1]
        if self.found.scores:
            return scores_svg(self.view())
        return attention_svg(drawn, *drawn.focus, 0 if isinstance(self.found, AttentionQuery) else self.kept)

    def html(self) -> str:
        """The page: of all heads, where there are not too many numbers."""
        found = self.found
        if not isinstance(found, AttentionHeads):
            return picture_html(self.view())
        every = sum(record.weights.size for record in found.records)
        if every <= MOST_NUMBERS and not isinstance(found, AttentionQuery):
            return attention_html(found.records)
        return attention_html(found.narrowed(), layer=found.layer or 0, head=found.head or 0)

    def text(self, ending: str) -> str | None:
        """What a file with that ending holds; None: no such form."""
        if ending == ".json":
            return json.dumps(self.json(), allow_nan=False) + "\n"
        if ending == ".csv":
            return to_csv(self.table())
        return self.svg() if ending == ".svg" else self.html() if ending == ".html" else None
