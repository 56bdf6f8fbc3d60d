"""All that a moment's picture is drawn from."""

from dataclasses import dataclass
from functools import cached_property

from tfcli.explorer.reading import Reading
from tfcli.explorer.state import View
from tfcli.explorer.values import Map, MapValues, head_weights, map_values
from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.words import labels


@dataclass(frozen=True)
class Scene:
    """A text, a view of it, and what the terminal can show.

    Args:
        run: the run directory as it was named; checkpoint: which of its weights.
        color_system: rich's name of it; None: no colour.
        light: whether its background is.
    """

    run: str
    checkpoint: str
    reading: Reading
    view: View
    color_system: str | None
    light: bool = False

    @cached_property
    def record(self) -> AttentionRecord:
        """The attention of the kind that is looked at."""
        return self.reading.record(self.view.place.kind)

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The labels of the rows."""
        return labels(self.record.query_tokens)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels of the columns."""
        return labels(self.record.key_tokens)

    @cached_property
    def values(self) -> MapValues:
        """What the map shows."""
        return map_values(self.reading, self.view)

    @cached_property
    def weights(self) -> Map:
        """The weights of the head that is looked at, NaN where a query may not look."""
        return head_weights(self.reading, self.view.place)

    @property
    def cursor(self) -> tuple[int, int]:
        """Query and key."""
        return self.view.row, self.view.column
