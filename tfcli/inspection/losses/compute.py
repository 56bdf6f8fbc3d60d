"""The loss of every token of a text, as evaluation sums it up.

A text is a document, ``<s> text </s>``, and the end of it is predicted as well. What is longer than the context is
read in windows side by side, as `tfcli evaluate` reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.errors import UsageError
from tfcli.evaluation.pseudo_perplexity import LoneMasks
from tfcli.evaluation.windows import Placed, SlidingWindows, perplexity
from tfcli.inspection.losses import Losses, ScoredToken
from tfcli.inspection.predictions.compute import named
from tfcli.inspection.reading import read_text
from tfcli.inspection.words import losses_in_words
from tfcli.models.head import require_head
from tfcli.models.objective import targets_of
from tfcli.records.generation import Candidate
from tfcli.runs.foreign import remark_if_foreign
from tfcli.runs.load import LoadedRun

_AT_A_TIME = 2048  # tokens


def losses(run: LoadedRun, text: str, target: str | None = None, *, words: bool = False) -> Losses:
    """Score every token of a text, of any length; of an encoder-decoder those of the target, which is its own
    translation where none is given.

    An encoder's are pseudo-losses: each token is masked alone and predicted from all the others (Salazar et al. 2020).

    Args:
        words: an entry a word: the sum over its tokens.

    Raises:
        UsageError: the model has no head or takes no target, there is nothing to score, or a pair is longer than the
            context.
    """
    require_head(run.config.model)
    if target is not None and run.architecture != "encoder-decoder":
        raise UsageError(f"This {run.architecture} reads one text, and --target is a second one", "leave --target out")
    passages = _pair(run, text, target) if run.architecture == "encoder-decoder" else _windows(run, text)
    scores = _Scores(len(passages.ids))
    with torch.inference_mode():
        for placed in passages.batches:
            scores.take(run, placed)
    scored = np.isfinite(scores.nats)
    if not scored.any() and not text:
        raise UsageError("The text is empty", "give a few words")
    if not scored.any():
        raise UsageError(
            "The text has no token to score: all are special or unknown to the tokenizer",
            "give text in the alphabet that the tokenizer was trained on",
        )
    loss, size = float(scores.nats[scored].mean()), len(passages.text.encode())
    tokens = _tokens(run, passages, scores)
    covers = run.architecture != "encoder" and size > 0
    bits_per_byte = float(scores.nats[scored].sum()) / np.log(2) / size if covers else None
    remark_if_foreign(run, text, bits_per_byte)
    return Losses(
        kind="masked" if run.architecture == "encoder" else "next",
        tokens=losses_in_words(tokens, run.tokenizer.words(passages.ids)) if words else tokens,
        scored=int(scored.sum()),
        loss=loss,
        perplexity=perplexity(loss),
        bits_per_byte=bits_per_byte,
        windows=passages.windows,
        context=run.recipe.context,
    )


@dataclass(frozen=True, eq=False)
class _Passages:
    """A text, its framed ids, and the batches that score them; `first` is where the text's own tokens begin."""

    text: str
    ids: list[int]
    first: int
    batches: Iterable[Placed]
    windows: int


class _Scores:
    """Of every token its −ln p (NaN: not scored), its rank, and the likeliest token with its probability."""

    def __init__(self, length: int) -> None:
        self.nats, self.probabilities = np.full(length, np.nan), np.zeros(length)
        self.ranks, self.best = np.zeros(length, np.int64), np.zeros(length, np.int64)

    def take(self, run: LoadedRun, placed: Placed) -> None:
        """Score a batch."""
        labels = placed.batch.labels
        scored = (labels != IGNORED).ravel()
        if not scored.any():
            return
        left = np.broadcast_to(placed.places, labels.shape).ravel()[scored]
        for target in targets_of(run.model, placed.batch, run.device):
            kept = target.labels != IGNORED
            logits, right = target.logits[kept].float(), target.labels[kept]
            known: Tensor = named(run, logits.softmax(-1))
            own = known.gather(-1, right[:, None])
            highest, best = known.max(-1)
            places, left = left[: len(right)], left[len(right) :]
            self.nats[places] = F.cross_entropy(logits, right, reduction="none").cpu().numpy()
            self.ranks[places] = 1 + (known > own).sum(-1).cpu().numpy()
            self.best[places] = best.cpu().numpy()
            self.probabilities[places] = highest.cpu().numpy()


def _windows(run: LoadedRun, text: str) -> _Passages:
    roles, context = run.config.roles, run.recipe.context
    ids, first = roles.text(run.tokenizer.encode(text)), len(roles.text_prefix)
    view = TokenStreamView([np.array(ids)], [np.array([0, len(ids)])])
    if run.architecture == "decoder":
        batches: Iterable[Placed] = SlidingWindows(
            view, roles, context, stride=context, documents=False, tokens=_AT_A_TIME
        )
        return _Passages(text, ids, first, batches, -(-(len(ids) - 1) // context))
    starts = np.arange(0, len(ids), context)
    lengths = np.minimum(context, len(ids) - starts)
    return _Passages(text, ids, first, LoneMasks(view, roles, starts, lengths, _AT_A_TIME), len(starts))


def _pair(run: LoadedRun, text: str, target: str | None) -> _Passages:
    """Labels are the target without its first token and with its end, as `data/pairs.py` has them."""
    roles, inputs = run.config.roles, read_text(run, text, target, remark=False)
    assert inputs.encoder is not None and inputs.decoder is not None
    ids, first = [*inputs.decoder, roles.eos], len(roles.target_prefix)
    batch = Batch(np.array([inputs.encoder]), np.array([ids[1:]]), decoder_input_ids=np.array([ids[:-1]]))
    written = run.tokenizer.decode(ids[first:-1]) if target is None else target
    return _Passages(written, ids, first, [Placed(batch, np.arange(1, len(ids))[None])], 1)


def _tokens(run: LoadedRun, passages: _Passages, scores: _Scores) -> tuple[ScoredToken, ...]:
    names, best = run.tokenizer.labels(passages.ids), run.tokenizer.labels(scores.best)
    return tuple(
        ScoredToken(
            position=place,
            token=names[place],
            before=before,
            text=text,
            loss=float(scores.nats[place]) if np.isfinite(scores.nats[place]) else None,
            rank=int(scores.ranks[place]) or None,
            best=Candidate(best[place], float(scores.probabilities[place])) if scores.ranks[place] else None,
        )
        for place, (before, text) in enumerate(_pieces(run, passages, names))
    )


def _pieces(run: LoadedRun, passages: _Passages, names: list[str]) -> list[tuple[str, str]]:
    """Of every token the characters before it that no token has, and its own."""
    own, spans = run.tokenizer.encode_spans([passages.text])[0]
    if own != passages.ids[passages.first : -1]:  # a translation whose text is cut otherwise when it is read again
        return [("", name) for name in names]
    pieces = [("", name) for name in names[: passages.first]]
    end = 0
    for name, (start, stop) in zip(names[passages.first : -1], spans, strict=True):
        start = max(start, end)
        pieces.append((passages.text[end:start], passages.text[start:stop] or name))
        end = max(end, stop)
    return [*pieces, (passages.text[end:], names[-1])]
