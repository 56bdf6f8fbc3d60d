"""What a model predicts at every position of a text, beside what is there.

Shape legend: T positions, Vocab tokens, K candidates.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.predictions import Prediction, Predictions
from tfcli.inspection.reading import Inputs, read_text
from tfcli.models.head import require_head
from tfcli.records.generation import Candidate
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class Asked:
    """A text as a run reads it: `read` are the ids of the side that the head predicts on, T of them.

    `answers` are the right ids: the token after each position, or, of an encoder, the one that stands there. None is
    where nobody knows: behind the last token, and under a mask. `places` are the positions that are shown, `names`
    what is read there, and `position` is the number among them of the one to look at.
    """

    inputs: Inputs
    read: tuple[int, ...]
    answers: tuple[int | None, ...]
    places: tuple[int, ...]
    names: tuple[str, ...]
    position: int
    kind: Literal["next", "masked"]


def ask(
    run: LoadedRun, text: str, target: str | None = None, position: int | None = None, *, words: bool = False
) -> Asked:
    """Read a text, and the true target or the model's own.

    Args:
        position: from 0; None: that of the token which comes next, of the first mask, or of the last token that the
            model has translated.
        words: show a position a word, where its first piece is predicted, or the first one of the next word.

    Raises:
        UsageError: the model has no head, takes no target, or has no such position; the text is longer than the
            context.
    """
    require_head(run.config.model)
    inputs = read_text(run, text, target)
    read = inputs.decoder or inputs.encoder
    assert read is not None
    if run.architecture == "encoder":
        mask = run.config.roles.mask
        answers = tuple(None if token == mask else token for token in read)
        first = read.index(mask) if mask in read else max(0, len(read) - 2)
        return Asked(
            inputs, read, answers, *_shown(run, read, 0, words=words, default=first, position=position), "masked"
        )
    end = None if target is None else run.config.roles.eos
    own = run.architecture == "encoder-decoder" and target is None
    last = max(0, len(read) - (2 if own else 1))
    return Asked(
        inputs, read, (*read[1:], end), *_shown(run, read, -1, words=words, default=last, position=position), "next"
    )


def _shown(
    run: LoadedRun, read: tuple[int, ...], piece: int, words: bool, default: int, position: int | None
) -> tuple[tuple[int, ...], tuple[str, ...], int]:
    """The positions that are shown, what is read there, and which of them is looked at.

    Args:
        piece: of each word, the one at whose position it is asked for. default: the position where none is given.
    """
    if not words:
        names = tuple(run.tokenizer.labels(read))
        return tuple(range(len(read))), names, _checked(position, default, len(read), "tokens")
    found = run.tokenizer.words(read)
    own = next(number for number, word in enumerate(found) if default in word.places)
    places, names = zip(*((word.places[piece], word.text) for word in found), strict=True)
    return places, names, _checked(position, own, len(found), "words")


def named(run: LoadedRun, scores: Tensor) -> Tensor:
    """Scores without those of rows that no token has: published matrices are padded to a round number.

    Shape:
        scores: (…, Vocab) → (…, tokens of the tokenizer, or Vocab)
    """
    return scores[..., : run.tokenizer.vocab_size]


def _checked(position: int | None, default: int, length: int, what: str) -> int:
    if position is None:
        return default
    if not 0 <= position < length:
        raise UsageError(
            f"There is no position {position}: the model reads {length} {what}",
            f"choose one from 0 to {length - 1}",
        )
    return position


CANDIDATES = 5
"""Shown where no number is asked for."""


def predictions(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    top_k: int = CANDIDATES,
    words: bool = False,
) -> Predictions:
    """The `top_k` likeliest tokens at every position, and the rank and the probability of the true one.

    A decoder says what comes next, and so does an encoder-decoder of its target (its own translation, where none is
    given); an encoder says what stands under a mask, and which token it would restore where there is none.
    Probabilities are those of the softmax over the whole vocabulary.

    Args:
        position: the one to look at, from 0; None: as `ask` chooses.
        words: a row a word: what is predicted of its first piece, or of the next word's.

    Raises:
        UsageError: the model has no head, or there is no such position.
    """
    asked = ask(run, text, target, position, words=words)
    with torch.inference_mode():
        logits: Tensor = run.model(*asked.inputs.tensors(run.device))[0].cpu()
        logs = logits.double().log_softmax(-1)
        entropies = -(logs.exp() * logs).sum(-1)
        scores = named(run, logs)  # (T, tokens)
        best = scores.topk(min(top_k, scores.shape[-1]), dim=-1)  # (T, K)
    found = []
    for number, place in enumerate(asked.places):
        answer = asked.answers[place]
        names = run.tokenizer.labels(best.indices[place].tolist())
        row = scores[place]
        found.append(
            Prediction(
                position=number,
                read=asked.names[number],
                answer=None if answer is None else run.tokenizer.labels([answer])[0],
                rank=None if answer is None else 1 + int((row > row[answer]).sum()),
                probability=None if answer is None else float(row[answer].exp()),
                entropy=float(entropies[place]),
                candidates=tuple(map(Candidate, names, best.values[place].exp().tolist())),
            )
        )
    return Predictions(asked.kind, asked.position, tuple(found))


def candidates_at(run: LoadedRun, inputs: Inputs, position: int, top_k: int = CANDIDATES) -> tuple[Candidate, ...]:
    """The likeliest tokens behind a position, of ids that are there already, by a model that has a head."""
    with torch.inference_mode():
        scores = named(run, run.model(*inputs.tensors(run.device))[0, position].float().softmax(-1))
    best = scores.topk(min(top_k, len(scores)))
    return tuple(map(Candidate, run.tokenizer.labels(best.indices.tolist()), best.values.tolist()))
