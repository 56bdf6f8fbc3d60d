"""What a model predicts at every position of a text, beside what is there.

Shape legend: T positions, Vocab tokens, K candidates.
"""

import torch
from torch import Tensor

from tfcli.inspection.predictions.question import ask, named
from tfcli.inspection.reading import Inputs
from tfcli.records.generation import Candidate
from tfcli.records.predictions import Prediction, Predictions
from tfcli.runs.load import LoadedRun

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
        position: the one to look at, from 0; None: as `asked.ask` chooses.
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
