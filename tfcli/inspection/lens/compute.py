"""The logit lens: the residual stream after every layer, read by the last norm and the head.

nostalgebraist 2020, "interpreting GPT: the logit lens". Where the norm comes after each residual there is no last norm,
and the head reads what a layer gives as it is. Shape legend: L layers, T positions, D model, K candidates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tfcli.inspection.lens import Lens
from tfcli.inspection.passes import record_model
from tfcli.inspection.predictions.compute import ask, named
from tfcli.models.transformer import EncoderDecoder
from tfcli.records.arrays import frozen
from tfcli.records.generation import Candidate
from tfcli.runs.load import LoadedRun

CANDIDATES = 3
"""Shown of each layer where no number is asked for."""


def lens(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    top_k: int = CANDIDATES,
    words: bool = False,
) -> Lens:
    """What the model would predict at every position if it stopped after each layer.

    Args:
        position: the one to look at, from 0; None: as `ask` chooses.
        top_k: candidates of each layer at that position.
        words: a column a word: what is predicted of its first piece, or of the next word's.

    Raises:
        UsageError: the model has no head, or there is no such position.
    """
    asked = ask(run, text, target, position, words=words)
    with torch.inference_mode():
        streams = [stream[list(asked.places)] for stream in _streams(run, asked.inputs.tensors(run.device))]
        last = _probabilities(run, streams[-1]).argmax(-1)  # (T,)
        tops, likeliest = [], []
        for stream in streams:
            likely = _probabilities(run, stream)
            highest, token = likely.max(-1)
            tops.append((token.tolist(), highest.tolist(), likely.gather(-1, last[:, None])[:, 0].tolist()))
            best = likely[asked.position].topk(min(top_k, likely.shape[-1]))
            likeliest.append((best.indices.tolist(), best.values.tolist()))
    top, probabilities, final = zip(*tops, strict=True)
    label = run.tokenizer.labels
    return Lens(
        kind=asked.kind,
        tokens=asked.names,
        answers=tuple(None if one is None else label([one])[0] for one in map(asked.answers.__getitem__, asked.places)),
        top=tuple(tuple(label(one)) for one in top),
        probabilities=frozen(probabilities),
        final=frozen(final),
        settled=tuple(_settled(tops) for tops in zip(*top, strict=True)),
        position=asked.position,
        candidates=tuple(tuple(map(Candidate, label(ids), found)) for ids, found in likeliest),
    )


def _streams(run: LoadedRun, inputs: list[Tensor]) -> list[Tensor]:
    """What the head would read at every depth, each (T, D)."""
    stack = record_model(run.model, inputs).last
    norm = run.model.get_submodule("decoder" if isinstance(run.model, EncoderDecoder) else "stack").final_norm
    assert isinstance(norm, nn.Module)
    return [norm(stream) for stream in (stack.embedded, *(layer.after for layer in stack.layers))]


def _probabilities(run: LoadedRun, stream: Tensor) -> Tensor:
    """What the head makes of vectors, of the tokens that have a name.

    Shape:
        stream: (T, D) → (T, tokens)
    """
    logits: Tensor = run.model.head(stream)
    return named(run, logits.float().softmax(-1))


def _settled(tops: Sequence[int]) -> int:
    """The first depth from which on the likeliest token is the last one's.

    >>> _settled([4, 7, 5, 7, 7])
    3
    """
    changes = [depth for depth, token in enumerate(tops) if token != tops[-1]]
    return changes[-1] + 1 if changes else 0
