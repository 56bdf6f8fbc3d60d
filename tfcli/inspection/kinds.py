"""The kinds of attention that a model has, and the sides that each of them reads."""

from tfcli.errors import UsageError
from tfcli.inspection.reading import Inputs
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun

KINDS: dict[str, tuple[AttentionKind, ...]] = {
    "decoder": ("decoder_self",),
    "encoder": ("encoder_self",),
    "encoder-decoder": ("encoder_self", "decoder_self", "cross"),
}
"""By architecture, in the order in which they are shown."""


def chosen_kinds(run: LoadedRun, kind: AttentionKind | None) -> tuple[AttentionKind, ...]:
    """The kind that is asked for, or all that the model has.

    Raises:
        UsageError: the model has no attention of that kind; naming those it has.
    """
    kinds = KINDS[run.architecture]
    if kind is None:
        return kinds
    if kind not in kinds:
        raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")
    return (kind,)


def query_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that look."""
    return _there(inputs.encoder if kind == "encoder_self" else inputs.decoder)


def key_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that are looked at."""
    return _there(inputs.decoder if kind == "decoder_self" else inputs.encoder)


def _there(ids: tuple[int, ...] | None) -> tuple[int, ...]:
    assert ids is not None, "a kind of attention reads sides that its model has"
    return ids
