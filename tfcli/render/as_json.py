"""Records as plain dictionaries and lists with stable keys, ready for `json.dumps(…, allow_nan=False)`."""

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionRecord
from tfcli.records.positions import (
    BeyondContext,
    PositionComparison,
    PositionRequirements,
    PositionsRecord,
    ShiftRecord,
)
from tfcli.records.tokenization import TokenizerReport
from tfcli.records.training import (
    CheckpointSaved,
    Evaluated,
    SettingChanged,
    StepsDone,
    TrainingFinished,
    TrainingStarted,
)
from tfcli.records.verification import Verification

_EVENTS = {
    TrainingStarted: "started",
    SettingChanged: "changed",
    StepsDone: "step",
    Evaluated: "evaluated",
    CheckpointSaved: "saved",
    TrainingFinished: "finished",
}


def to_json(record: Any) -> Any:
    """A record, or a list of them, as JSON values. Attention records always come under "records".

    Numbers are finite: NaN and infinity become null. A training event carries its name under "event".
    """
    if isinstance(record, AttentionRecord):
        return {"records": [_attention(record)]}
    if isinstance(record, list | tuple) and record and all(isinstance(one, AttentionRecord) for one in record):
        return {"records": [_attention(one) for one in record]}
    if isinstance(record, list | tuple):
        return [to_json(one) for one in record]
    return _one(record)


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


def _one(record: Any) -> dict[str, Any]:
    if isinstance(record, TokenizerReport):
        return {**_fields(record), "bytes_per_token": _value(record.bytes_per_token)}
    if isinstance(record, Verification):
        return {"passed": record.passed, **_fields(record)}
    if type(record) in _EVENTS:
        return {"event": _EVENTS[type(record)], **_fields(record)}
    return _fields(record)


def _attention(record: AttentionRecord) -> dict[str, Any]:
    extra = ("scores", "names", "query_positions", "key_positions")
    there = [name for name in extra if getattr(record, name) is not None and len(getattr(record, name))]
    return _chosen(record, ("kind", "query_tokens", "key_tokens", "weights", *there))


def _chosen(record: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: _value(getattr(record, name)) for name in names}


def _fields(record: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(record):
        value = _value(getattr(record, field.name))
        # A flat mapping is written among the record's own keys; and Python has words like "from" of its own, so that a
        # field of that name is written from_.
        values |= value if field.metadata.get("flat") else {field.name.rstrip("_"): value}
    return values


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _nested(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    if is_dataclass(value):
        return _fields(value)
    return value


def _nested(array: NDArray[Any]) -> list[Any]:
    """Nested lists; float32 written with as few digits as name it exactly (0.1, not 0.10000000149011612)."""
    values: Any = array
    if array.dtype == np.float32:
        values = array.astype("U32").astype(np.float64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = np.where(np.isfinite(values), values, None)
    nested: list[Any] = values.tolist()
    return nested
