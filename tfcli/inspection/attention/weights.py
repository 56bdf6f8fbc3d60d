"""The attention weights of a trained model on a text."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.attention.focus import focused
from tfcli.inspection.attention.score_formula import score_formula
from tfcli.inspection.passes import AttentionPass, record_model
from tfcli.inspection.reading import Inputs, read_text
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionKind, AttentionRecord
from tfcli.runs.load import LoadedRun

_KINDS: dict[str, tuple[AttentionKind, ...]] = {
    "decoder": ("decoder_self",),
    "encoder": ("encoder_self",),
    "encoder-decoder": ("encoder_self", "decoder_self", "cross"),
}


def attention(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    kind: AttentionKind | None = None,
    *,
    beam: int | None = None,
    max_new_tokens: int | None = None,
) -> list[AttentionRecord]:
    """The weights of every layer and head, of one kind or of all that the model has.

    The text is read as `reading.read_text` says. Row t of a decoder's weights is what it looks at to predict the token
    after t.

    Args:
        beam: follow a search with so many beams: the target is the best text that it finds, and a decoder reads the
            best continuation behind the text.
        max_new_tokens: for that search; None: the recipe's.

    Raises:
        UsageError: the model has no attention of that kind or takes no target or beam, or a text is longer than the
            context.
    """
    require_kind(run, kind)
    return attention_on(run, read_text(run, text, target, beam=beam, max_new_tokens=max_new_tokens), kind)


def attention_on(run: LoadedRun, inputs: Inputs, kind: AttentionKind | None = None) -> list[AttentionRecord]:
    """As `attention`, of ids that are there already.

    Raises:
        UsageError: the model has no attention of that kind.
    """
    require_kind(run, kind)
    kinds = _KINDS[run.architecture]
    with torch.inference_mode():
        passed = record_model(run.model, inputs.tensors(run.device))
    return [_record(run, one, inputs, passed.attentions(one)) for one in kinds if kind in (None, one)]


def require_kind(run: LoadedRun, kind: AttentionKind | None) -> None:
    """Refuse a kind of attention that the model does not have.

    Raises:
        UsageError: naming those it has.
    """
    kinds = _KINDS[run.architecture]
    if kind is not None and kind not in kinds:
        raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")


def _record(run: LoadedRun, kind: AttentionKind, inputs: Inputs, layers: list[AttentionPass]) -> AttentionRecord:
    queries = inputs.encoder if kind == "encoder_self" else inputs.decoder
    keys = inputs.decoder if kind == "decoder_self" else inputs.encoder
    assert queries is not None and keys is not None
    labels = run.tokenizer.labels
    record = AttentionRecord(
        kind,
        tuple(labels(queries)),
        tuple(labels(keys)),
        weights=_stacked([layer.weights for layer in layers]),
        scores=_stacked([layer.scores for layer in layers]),
        bias=None if layers[0].bias is None else _stacked([one.bias for one in layers if one.bias is not None]),
        formula=score_formula(run.config.model, kind),
        mask=frozen(layers[0].mask.cpu().numpy(), np.bool_),
    )
    return focused(record)


def _stacked(layers: list[Tensor]) -> NDArray[np.float32]:
    """Shape: a (H, T, S) a layer to (L, H, T, S)."""
    return frozen(torch.stack(layers).cpu().numpy())
