"""A decoder's loss by position, within the context it was trained on and beyond."""

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.data.batch import Batch
from tfcli.data.causal import are_news
from tfcli.data.dataset import PreparedDataset
from tfcli.errors import UsageError
from tfcli.evaluation.objective import scores_of_labels
from tfcli.models.decoder import Decoder
from tfcli.models.extend import extend_context
from tfcli.records.arrays import frozen
from tfcli.records.positions import BeyondContext, LossBand
from tfcli.runs.load import LoadedRun

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
    context = run.recipe.train.context or run.config.model.max_seq_len
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
    return BeyondContext(context, texts, bands, size, frozen(bins), learned)


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
