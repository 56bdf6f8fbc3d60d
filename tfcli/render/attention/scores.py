"""One head's scores beside the weights that the softmax makes of them."""

from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.grid import Grid
from tfcli.render.attention.matrix import Matrix, bias_matrix, scores_matrix, weights_matrix
from tfcli.render.attention.svg import matrices_svg
from tfcli.render.attention.words import KIND_NAMES, SIDES

SOFTMAX = "weights = softmax of each row's scores, masked cells left out"
_SPACE = 3
_NARROWEST_MAP = 60
_LEGEND = 50  # cells that a legend wants


@dataclass(frozen=True)
class AttentionScores:
    """Scores, what positions added to them where they did, and weights: side by side where they fit."""

    record: AttentionRecord
    layer: int
    head: int
    kept: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, style="bold")
        yield Text(self.note, style="dim")
        matrices = self.matrices()
        parts = [Group(*matrix.heading(), Grid(matrix)) for matrix in matrices]
        widths = _side_by_side(matrices, options.max_width)
        if widths is None:
            yield from parts
            return
        row = Table.grid(padding=(0, _SPACE, 0, 0))
        for width in widths:
            row.add_column(width=width)
        row.add_row(*parts)
        yield row

    @property
    def heading(self) -> str:
        """What is shown, as one line."""
        place = self.record.place(self.layer, self.head)
        return f"Attention scores and weights · {KIND_NAMES[self.record.kind]} · {place}"

    @property
    def note(self) -> str:
        """The two formulas, and which side is which."""
        return f"{self.record.formula}\n{SOFTMAX}\n{SIDES[self.record.kind]}"

    def matrices(self) -> list[Matrix]:
        """The scores, the position bias where there is one, and the weights."""
        where = (self.record, self.layer, self.head, self.kept)
        scores = replace(scores_matrix(*where), title="Scores")
        weights = replace(weights_matrix(*where), title="Weights", note="")
        if self.record.bias is None:
            return [scores, weights]
        return [scores, replace(bias_matrix(*where), title="of which position bias"), weights]


def _side_by_side(matrices: list[Matrix], width: int) -> list[int] | None:
    """A width each: as numbers where all of them fit in one line, as maps where those stay wide; else None."""
    most = width - _SPACE * (len(matrices) - 1)
    wanted = [Grid(matrix).numbers_width(most) for matrix in matrices]
    known = [one for one in wanted if one is not None]
    if len(known) == len(wanted) and sum(known) <= most:
        roomy = [max(one, _LEGEND) for one in known]
        return roomy if sum(roomy) <= most else known
    share = most // len(matrices)
    return [share] * len(matrices) if not known and share >= _NARROWEST_MAP else None


def scores_svg(scores: AttentionScores) -> str:
    """The same tables as an SVG document, one under the other."""
    return matrices_svg(scores.matrices(), scores.heading, scores.note)
