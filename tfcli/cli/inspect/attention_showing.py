"""What ``tfcli inspect attention`` shows: a view with its JSON, its table and its files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfcli.cli.inspect.attention_options import Choice
    from tfcli.records.attention import AttentionDifference, AttentionEvolution, AttentionRecord
    from tfcli.render.table_csv import Table

_MOST_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Shown:
    """A picture in all its forms; `svg` and `html` are None where files show what the terminal does."""

    view: Any
    json: Callable[[], Any]
    table: Callable[[], "Table"]
    svg: Callable[[], str] | None = None
    html: Callable[[], str] | None = None


def shown_heads(records: "Sequence[AttentionRecord]", choice: "Choice") -> Shown:
    """Weights: of all heads small and of one as a table; or its scores, or its strongest weights."""
    from rich.console import Group
    from rich.text import Text

    from tfcli.inspection.attention.focus import narrowed
    from tfcli.render.as_json import to_json
    from tfcli.render.attention.csv import attention_table
    from tfcli.render.attention.html import attention_html
    from tfcli.render.attention.overview import AttentionOverview
    from tfcli.render.attention.svg import attention_svg
    from tfcli.render.attention.table import AttentionTable

    picture = records[-1]  # of an encoder-decoder, the cross-attention
    layer, head = picture.focus
    if choice.top_k is not None:
        return _shown_edges(picture, choice.top_k)
    chosen = [narrowed(record, choice.layer, None if choice.combined else choice.head) for record in records]

    def html() -> str:
        if sum(record.weights.size for record in records) <= _MOST_NUMBERS:
            return attention_html(records)
        return attention_html(chosen, layer=choice.layer or 0, head=choice.head or 0)

    def table() -> "Table":
        return attention_table(chosen, (choice.layer or 0, choice.head or 0))

    if choice.scores:
        from tfcli.render.attention.scores import AttentionScores, scores_svg

        scores = AttentionScores(picture, layer, head, choice.first)
        return Shown(scores, lambda: to_json(chosen), table, lambda: scores_svg(scores), html)
    view: Any = AttentionTable(picture, layer, head, choice.first)
    if choice.layer is None and choice.head is None and picture.weights[..., 0, 0].size > 1:
        view = Group(AttentionOverview(picture), Text(""), view)
    return Shown(view, lambda: to_json(chosen), table, lambda: attention_svg(picture, layer, head, choice.first), html)


def _shown_edges(record: "AttentionRecord", count: int) -> Shown:
    from tfcli.inspection.attention.edges import strongest_edges
    from tfcli.render.as_json import to_json
    from tfcli.render.attention.edges import AttentionEdgeList, edges_table

    edges = strongest_edges(record, *record.focus, count)
    return Shown(AttentionEdgeList(edges), lambda: to_json(edges), lambda: edges_table(edges))


def shown_difference(difference: "AttentionDifference", first: int) -> Shown:
    """One attention less another."""
    from tfcli.render.as_json import to_json
    from tfcli.render.attention.difference import AttentionDifferenceView, difference_table
    from tfcli.render.attention.matrix import difference_matrix
    from tfcli.render.attention.svg import matrices_svg

    return Shown(
        AttentionDifferenceView(difference, first),
        lambda: to_json(difference),
        lambda: difference_table(difference),
        lambda: matrices_svg([difference_matrix(difference, first)]),
    )


def shown_evolution(evolution: "AttentionEvolution") -> Shown:
    """A head by step."""
    from tfcli.render.as_json import to_json
    from tfcli.render.attention.evolution import AttentionEvolutionView, evolution_table

    return Shown(AttentionEvolutionView(evolution), lambda: to_json(evolution), lambda: evolution_table(evolution))


def require_few(records: "Sequence[AttentionRecord]", choice: "Choice", form: str) -> None:
    """Refuse to print more numbers than anything could read.

    Raises:
        UsageError: naming the count and the limit.
    """
    from tfcli.errors import UsageError
    from tfcli.inspection.attention.focus import narrowed

    chosen = [narrowed(record, choice.layer, None if choice.combined else choice.head) for record in records]
    numbers = sum(record.weights.size for record in chosen)
    if numbers > _MOST_NUMBERS:
        raise UsageError(
            f"{numbers:,} weights are too many for {form} (at most {_MOST_NUMBERS:,})",
            "choose --layer and --head, or --rows and --columns, or write them with --npz FILE",
        )
