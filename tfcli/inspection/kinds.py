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


def chosen_kinds(
    run: LoadedRun, kind: AttentionKind | None, place: tuple[int, int | None] | None = None
) -> tuple[AttentionKind, ...]:
    """The kind that is asked for, or all that the model has.

    Args:
        place: a layer and a head, or a layer alone, that one of them has to have.

    Raises:
        UsageError: the model has no attention of that kind, or no such head; naming those it has.
    """
    kinds = KINDS[run.architecture]
    if kind is not None:
        if kind not in kinds:
            raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")
        kinds = (kind,)
    if place is not None:
        model, decodes = run.config.model, run.architecture == "encoder-decoder"
        layers = max(model.decoder_layers if decodes and one != "encoder_self" else model.num_layers for one in kinds)
        if place[0] >= layers or (place[1] or 0) >= model.num_heads:
            raise UsageError(
                f"{run.directory.path} has no head {place[0]}.{place[1] or 0}",
                f"name LAYER.HEAD, both from 0: layers to {layers - 1}, heads to {model.num_heads - 1}",
            )
    return kinds


def query_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that look."""
    return _there(inputs.encoder if kind == "encoder_self" else inputs.decoder)


def key_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that are looked at."""
    return _there(inputs.decoder if kind == "decoder_self" else inputs.encoder)


def _there(ids: tuple[int, ...] | None) -> tuple[int, ...]:
    assert ids is not None, "a kind of attention reads sides that its model has"
    return ids
