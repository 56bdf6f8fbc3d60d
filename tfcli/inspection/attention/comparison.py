"""What a head is held against: another head, another text, another model."""

from collections.abc import Callable

from tfcli.inspection.attention.difference import (
    LARGEST,
    Place,
    difference,
    require_same_size,
    require_same_tokens,
)
from tfcli.inspection.attention.focus import require_place
from tfcli.inspection.attention.weights import attention_on
from tfcli.inspection.reading import Inputs, require_room
from tfcli.records.attention import AttentionDifference, AttentionRecord
from tfcli.runs.load import LoadedRun

Prepare = Callable[[AttentionRecord], AttentionRecord]
"""What is done to a record before it is compared: its heads combined, a part of its text."""
Read = Callable[[LoadedRun, str], Inputs]
"""How a run reads a text: with the target, or the beams, of the first side."""


def against_head(record: AttentionRecord, place: Place, largest: int = LARGEST) -> AttentionDifference:
    """The head in focus less another one on the same text.

    Raises:
        UsageError: the model has no such layer or head.
    """
    require_place("layer", place[0], record.weights.shape[0])
    require_place("head", place[1], record.weights.shape[1])
    places = (record.focus, place)
    return difference(record, record, places, (record.place(*record.focus), record.place(*place)), largest=largest)


def against_text(
    run: LoadedRun,
    record: AttentionRecord,
    texts: tuple[str, str],
    read: Read,
    prepare: Prepare,
    largest: int = LARGEST,
) -> AttentionDifference:
    """A head on its text less the same head on another one of as many tokens.

    Args:
        record: of the first text, whole. texts: both of them.

    Raises:
        UsageError: the other text cannot be read, or has more or fewer tokens.
    """
    [other] = attention_on(run, read(run, texts[1]), record.kind)
    names = (f"“{texts[0]}”", f"“{texts[1]}”")
    ours, theirs = prepare(record), prepare(other)
    require_same_size(ours, theirs, names)
    return difference(ours, theirs, (ours.focus, ours.focus), names, largest=largest)


def against_run(
    run: LoadedRun,
    other: LoadedRun,
    inputs: Inputs,
    record: AttentionRecord,
    names: tuple[str, str],
    text: str,
    read: Read,
    prepare: Prepare,
    largest: int = LARGEST,
) -> AttentionDifference:
    """A head of one model less the same head of another one, on the same tokens.

    With one tokenizer, both read the same ids, a translation too; else the other one reads the text itself.

    Args:
        record: of the first model, whole. text: what it has read as `inputs`.

    Raises:
        UsageError: the other model has no such attention, layer or head, reads other tokens, or has a shorter context.
    """
    if other.config.tokenizer_fingerprint != run.config.tokenizer_fingerprint:
        inputs = read(other, text)
    require_room(other, inputs)
    [found] = attention_on(other, inputs, record.kind)
    require_same_tokens(record, found, names[1])
    ours, theirs = prepare(record), prepare(found)
    layer, head = ours.focus
    require_place("layer", layer, theirs.weights.shape[0])
    require_place("head", head, theirs.weights.shape[1])
    return difference(ours, theirs, (ours.focus, ours.focus), names, largest=largest)
