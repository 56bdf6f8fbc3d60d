"""A run's embeddings of a text, and what the run does with positions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.inspection.reading import text_ids
from tfcli.inspection.tower import tower
from tfcli.layers.span import Span
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class Embedded:
    """A text's embeddings before positions join them.

    Shape:
        vectors: (T, D), or fewer columns where positions are concatenated
        added: (T, D), what the run adds; None: something else, which `remark` says
    """

    tokens: Sequence[str]
    vectors: Tensor
    added: Tensor | None
    remark: str


@torch.inference_mode()
def embedded_by_run(run: LoadedRun, text: str) -> Embedded:
    """What a run's embedding makes of a text; an encoder-decoder's of its source.

    Raises:
        UsageError: the text is empty where there must be one, or longer than the context.
    """
    ids = text_ids(run, text)
    embedding, section = tower(run.model).embedding, run.config.model
    vectors = F.embedding(torch.tensor(ids, device=run.device), embedding.weight) * embedding.scale
    if embedding.token_types is not None:
        vectors = vectors + embedding.token_types[0]
    adds = embedding.has_positions and not embedding.concatenates
    added = embedding.position_rows(Span(0, len(ids))) if adds else None
    remark = f"These are the run's own positions: {section.positions}."
    if not adds:
        elsewhere = _elsewhere(section.positions, section.position_merge)
        remark = f"The run has {section.positions} positions, {elsewhere}: the formula's numbers stand in for them."
    if section.embedding_norm:
        remark += " A norm follows."
    return Embedded(run.tokenizer.labels(ids), vectors.float().cpu(), None if added is None else added.cpu(), remark)


def _elsewhere(positions: str, merge: str) -> str:
    """Where positions that are not added come in."""
    if positions == "none":
        return "none at all"
    return {"rotary": "which turn queries and keys", "alibi": "added to the scores", "t5": "added to the scores"}.get(
        positions, {"concat": "concatenated", "query_key": "in queries and keys alone"}.get(merge, "elsewhere")
    )
