"""Relative positions as a matrix, r_{n+k} = R_k r_n for every n (Bishop and Bishop 2024, 12.1.9), and
extrapolation: the loss of a decoder by position, within its context and beyond."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.data.batch import Batch
from tfcli.data.causal_lm import are_news
from tfcli.data.dataset import PreparedDataset
from tfcli.errors import UsageError
from tfcli.inspection.positions import BeyondContext, LossBand, PositionsRecord, ShiftRecord
from tfcli.models.objective import scores_of_labels
from tfcli.models.transformer import Decoder, extend_context
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun

_SMALLEST = 1e-6
"""Directions of the table that are smaller than this share of its largest hold nothing but what float32 rounds."""


def shift(record: PositionsRecord, k: int) -> ShiftRecord:
    """The rotation that carries sinusoidal and rotary positions by `k`; for a learned table the best linear map.

    A pair (sin nω, cos nω) is carried by [[cos kω, sin kω], [−sin kω, cos kω]], whatever n is.

    Raises:
        UsageError: biases are no vectors, or the table has not enough rows.
    """
    if record.columns == "head":
        raise UsageError(
            f"{record.encoding} adds numbers to scores, and has no vectors to carry", "choose sinusoidal or rotary"
        )
    if not 0 < k < record.length - 2:
        raise UsageError(
            f"A shift of {k} leaves no pairs of {record.length} positions", f"choose 1 to {record.length - 3}"
        )
    rows = record.table.astype(np.float64)
    if record.base is None:
        matrix, residual = fitted(rows, k)
        return ShiftRecord(record.encoding, k, frozen(matrix), angles=None, pairs=None, residual=residual)
    size = rows.shape[1]
    pairs = np.arange(size // 2 * 2).reshape(-1, 2)  # a rotary table holds its pairs side by side in both layouts
    if record.encoding == "sinusoidal" and record.layout == "halves":
        pairs = pairs.reshape(2, -1).T
    if record.frequencies is None:
        angles = k / record.scaling * record.base ** (-2.0 * np.arange(len(pairs)) / size)
    else:
        angles = k * record.frequencies
    matrix = _rotation(size, pairs, angles if record.encoding == "sinusoidal" else -angles)
    paired = pairs.ravel()
    residual = _residual(rows[k:], rows[:-k] @ matrix.T, paired)
    return ShiftRecord(
        record.encoding,
        k,
        frozen(matrix),
        angles=frozen(angles),
        pairs=frozen(pairs, np.int64),
        residual=residual,
        alone=size - len(paired),
    )


def fitted(rows: NDArray[np.float64], k: int) -> tuple[NDArray[Any], float]:
    """The matrix M of the least |r_{n+k} − M r_n| over even n, and what it leaves over odd n.

    Shape:
        rows: (N, D)
        returns: (D, D)
    """
    before, after = rows[:-k], rows[k:]
    solution = np.linalg.lstsq(before[0::2], after[0::2], rcond=_SMALLEST)[0]
    return solution.T, _residual(after[1::2], before[1::2] @ solution, np.arange(rows.shape[1]))


def _rotation(size: int, pairs: NDArray[np.int64], angles: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.zeros((size, size))
    first, second = pairs[:, 0], pairs[:, 1]
    matrix[first, first] = matrix[second, second] = np.cos(angles)
    matrix[first, second], matrix[second, first] = np.sin(angles), -np.sin(angles)
    return matrix


def _residual(after: NDArray[np.float64], carried: NDArray[np.float64], columns: NDArray[np.int64]) -> float:
    size = np.linalg.norm(after[:, columns])
    return float(np.linalg.norm((after - carried)[:, columns]) / size) if size else 0.0


_TIMES = (1, 2, 4)  # the context
_TOKENS = 1 << 15
_TEXTS = 32
_BINS = 64


@torch.inference_mode()
def beyond_context(run: LoadedRun, data: PreparedDataset) -> BeyondContext:
    """The mean loss of the tokens up to 1×, from 1× to 2×, and from 2× to 4× the context, in windows of 4× from the
    validation part. Learned positions end with the context, and so do the windows.

    The model's tables are made longer and stay so.

    Raises:
        UsageError: it is no decoder, it was trained with another tokenizer, or the text is too short.
    """
    require_decoder(run)
    data.require_tokenizer(run.tokenizer)
    context = run.recipe.context
    learned = run.config.model.positions == "learned"
    longest = context if learned else _TIMES[-1] * context
    view = data.text("validation")
    texts = min(_TEXTS, max(1, _TOKENS // longest), (len(view) - 1) // longest)
    if not texts:
        raise UsageError(
            f"The validation text has {len(view):,} tokens, and one window takes {longest + 1:,}",
            "leave --loss out, or train on more text",
        )
    if not learned:
        extend_context(run.model, longest)
    starts = np.linspace(0, len(view) - longest - 1, texts).astype(np.int64)
    tokens = view.padded(starts, np.full(texts, longest + 1), run.config.roles.pad)
    losses = np.where(are_news(tokens, run.config.roles), _losses(run, tokens), np.nan)
    edges = [0, *(times * context for times in _TIMES if times * context <= longest)]
    bands = tuple(LossBand(a, b, float(np.nanmean(losses[:, a:b]))) for a, b in pairwise(edges))
    size = -(-longest // _BINS)
    bins = [np.nanmean(losses[:, at : at + size]) for at in range(0, longest, size)]
    return BeyondContext(context, texts, bands, bin=size, curve=frozen(bins), learned=learned)


def require_decoder(run: LoadedRun) -> None:
    """Refuse a model whose loss is not that of a text read on and on.

    Raises:
        UsageError: it is no decoder.
    """
    if not isinstance(run.model, Decoder):
        raise UsageError(
            f"An {run.architecture}'s loss does not go on with a text", "leave --loss out, or name a decoder"
        )


def _losses(run: LoadedRun, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
    """−log p of every token but the first.

    Shape:
        tokens: (texts, 1 + N)
        returns: (texts, N)
    """
    rows = []
    for text in tokens:
        loss, *_ = scores_of_labels(run.model, Batch(text[None, :-1], text[None, 1:]), run.device)
        rows.append(loss.cpu())
    return torch.stack(rows).numpy()
