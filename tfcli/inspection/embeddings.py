"""Vectors of whole texts, from what a model makes of their tokens.

Shape legend: N texts, S tokens of the longest, D model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tfcli.generation.padding import padded
from tfcli.inspection.attention.focus import require_place
from tfcli.inspection.reading import text_ids
from tfcli.inspection.tower import tower
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.stack import Stack
from tfcli.records.arrays import frozen
from tfcli.records.embeddings import EmbeddingsRecord, Pool
from tfcli.runs.load import LoadedRun


def embed(
    run: LoadedRun, batches: Iterable[Sequence[str]], pool: Pool, layer: int | None
) -> Iterator[EmbeddingsRecord]:
    """The vectors of each batch of texts, as they come. An encoder-decoder's are those of its encoder.

    What a text is read with does not tell in its vector: padding is neither looked at nor pooled.

    Args:
        layer: whose output is pooled, from 0; None: the last one's, behind its norm.

    Raises:
        UsageError: at once, where there is no such layer; of a text, that it is longer than the context or empty.
    """
    stack = tower(run.model).stack
    require_place("layer", layer, len(stack.layers))
    return (_embedded(run, stack, tuple(texts), pool, layer) for texts in batches)


def joined(records: Sequence[EmbeddingsRecord]) -> EmbeddingsRecord:
    """Batches of one call as one record."""
    return replace(
        records[0],
        texts=tuple(text for record in records for text in record.texts),
        tokens=frozen(np.concatenate([record.tokens for record in records]), int),
        vectors=frozen(np.concatenate([record.vectors for record in records])),
    )


@torch.inference_mode()
def _embedded(run: LoadedRun, stack: Stack, texts: tuple[str, ...], pool: Pool, layer: int | None) -> EmbeddingsRecord:
    read = [text_ids(run, text) for text in texts]
    ids, mask = padded(read, run.config.roles.pad, run.device)
    hidden = _hidden(run, stack, ids, mask, layer).float()
    counts = torch.tensor([len(text) for text in read], device=run.device)
    return EmbeddingsRecord(
        run=str(run.directory.path),
        architecture=run.architecture,
        pool=pool,
        layer=layer,
        texts=texts,
        tokens=frozen(counts.cpu(), int),
        vectors=frozen(pooled(hidden, counts, pool).cpu()),
    )


def pooled(hidden: Tensor, counts: Tensor, pool: Pool) -> Tensor:
    """One vector a text.

    Shape:
        hidden: (N, S, D), padded at the right
        counts: (N,), tokens of each text
        returns: (N, D)
    """
    if pool == "first":
        return hidden[:, 0]
    if pool == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), counts - 1]
    real = torch.arange(hidden.shape[1], device=hidden.device) < counts[:, None]
    return hidden.where(real[..., None], 0.0).sum(1) / counts[:, None]


def _hidden(run: LoadedRun, stack: Stack, ids: Tensor, mask: Tensor | None, layer: int | None) -> Tensor:
    """Shape: ids, mask (N, S); returns (N, S, D)."""
    kept: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        kept.append(output)

    listened: nn.Module = stack if layer is None else stack.layers[layer]
    handle = listened.register_forward_hook(keep)
    try:
        if isinstance(run.model, EncoderDecoder):
            run.model.encode(ids, mask)
        else:
            run.model.hidden(ids, mask)
    finally:
        handle.remove()
    return kept[0]
