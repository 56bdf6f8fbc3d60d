"""A head as training went: at every checkpoint that the run keeps."""

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.inspection.attention.focus import focused
from tfcli.inspection.attention.weights import attention_on
from tfcli.inspection.heads.statistics import entropy
from tfcli.inspection.reading import Inputs
from tfcli.inspection.words import attention_in_words
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionEvolution, AttentionKind, AttentionRecord, AttentionStep
from tfcli.runs.load import LoadedRun, load_run


def evolution(
    run: LoadedRun,
    inputs: Inputs,
    kind: AttentionKind,
    layer: int | None = None,
    head: int | None = None,
    *,
    words: bool = False,
) -> AttentionEvolution:
    """One head on one text at every checkpoint.

    Args:
        layer: None: that of the head that says most with the run's loaded weights; head: likewise.
        words: merge the pieces of a word.

    Raises:
        UsageError: the run keeps fewer than two checkpoints, or has no such layer or head.
    """
    kept = list(run.directory.checkpoints())
    if len(kept) < 2:
        only = f"one checkpoint, of step {kept[0]}" if kept else "no checkpoints"
        raise UsageError(
            f"The run {run.directory.path} keeps {only}, and an evolution needs two",
            "train with --set train.keep_checkpoints=8, and --set train.save_every=STEPS for how often",
        )

    def read(run: LoadedRun) -> AttentionRecord:
        [found] = attention_on(run, inputs, kind)
        return attention_in_words(found) if words else found

    record = read(run)
    layer, head = focused(record, layer, head).focus
    maps = [read(load_run(run.directory.path, str(step), run.device)).weights[layer, head] for step in kept]
    return AttentionEvolution(
        kind=kind,
        layer=layer,
        head=head,
        query_tokens=record.query_tokens,
        key_tokens=record.key_tokens,
        weights=frozen(np.stack(maps)),
        mask=frozen(~record.hidden(layer, head), np.bool_),
        steps=tuple(_step(step, weights, record.telling) for step, weights in zip(kept, maps, strict=True)),
    )


def _step(step: int, weights: NDArray[np.float32], telling: NDArray[np.bool_]) -> AttentionStep:
    [nats] = entropy(weights[None].astype(np.float64))
    among = weights * telling
    row, column = np.unravel_index(int(among.argmax()), weights.shape)
    return AttentionStep(step, abs(float(nats)), float(among[row, column]), int(row), int(column))
