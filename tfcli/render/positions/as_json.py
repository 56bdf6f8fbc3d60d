"""Positional encodings as JSON values."""

from typing import Any

from tfcli.records.positions import (
    BeyondContext,
    PositionComparison,
    PositionRequirements,
    PositionsRecord,
    ShiftRecord,
)
from tfcli.render.as_json import to_json


def positions_json(
    record: PositionsRecord, found: PositionRequirements, shift: ShiftRecord | None, beyond: BeyondContext | None
) -> dict[str, Any]:
    """A table, what it should be, and what else was asked for; null: it was not."""
    about = to_json(found)
    return {
        **to_json(record),
        **{key: about[key] for key in ("origin", "joins", "requirements")},
        "shift": shift and to_json(shift),
        "beyond_context": beyond and to_json(beyond),
    }


def comparison_json(comparison: PositionComparison) -> dict[str, Any]:
    """Every encoding with its table and what it should be."""
    both = zip(comparison.tables, comparison.requirements, strict=True)
    return {"encodings": [{**to_json(record), **to_json(found)} for record, found in both]}
