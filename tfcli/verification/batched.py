"""Batched generation: texts that grow side by side against each of them read alone.

Shape legend: B rows, T tokens, S source tokens, Vocab.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.generation.reader import Reader, read_prompts, read_sources
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.verification.cached import require_generation
from tfcli.verification.check import Finding, Skipped, alike, proof
from tfcli.verification.reading import ModelInputs, predict, ragged
from tfcli.verification.subject import ROWS, VerifiedRun

_STEPS = 6
_MOVES: Mapping[int, list[int]] = {1: [2, 0, 1], 2: [0, 2, 1, 2], 4: [1, 3]}
"""After so many tokens, which row each row becomes: all change places, one is there twice, and some are dropped."""


@dataclass(frozen=True)
class _Text:
    """A text that is read from its first token to its last; a reader begins behind `start` of them."""

    ids: list[int]
    start: int
    source: list[int] | None


@proof(
    "batched prompts",
    "Prompts of different lengths that grow side by side are predicted as each is when it is read at once and alone.",
)
def batched_prompts(subject: VerifiedRun) -> Iterator[Finding]:
    """Of an encoder-decoder, the sources have different lengths."""
    return _findings(subject, {})


@proof(
    "rows that change places",
    "Texts that change places while they grow, as beams do, go on as themselves: cache, source and padding move along.",
)
def rows_that_change_places(subject: VerifiedRun) -> Iterator[Finding]:
    """One of them is continued twice, and some are dropped."""
    return _findings(subject, _MOVES)


@torch.inference_mode()
def _findings(subject: VerifiedRun, moves: Mapping[int, list[int]]) -> Iterator[Finding]:
    require_generation(subject)
    for length in sorted({min(7, subject.longest), subject.longest}):
        texts = _texts(subject, length)
        alone = [_alone(subject, text) for text in texts]
        steps = len(texts[0].ids) - texts[0].start
        reader = _reader(subject, texts, steps)
        order = list(range(len(texts)))
        for step in range(steps + 1):
            if step in moves:
                reader.select(moves[step])
                order = [order[row] for row in moves[step]]
            for row, number in enumerate(order):
                place = texts[number].start - 1 + step
                where = f"text {number + 1} of {len(texts)} in row {row + 1}, token {step} of up to {length}"
                yield alike(subject, reader.logits[row], alone[number][place], where)
            if step < steps:
                upcoming = [texts[number].ids[texts[number].start + step] for number in order]
                reader.read(torch.tensor(upcoming, device=subject.run.device))


def _texts(subject: VerifiedRun, length: int) -> list[_Text]:
    """Of different lengths, with as many tokens to come for each."""
    if subject.run.architecture != "encoder-decoder":
        rows = ragged(subject.ids(length))
        steps = min(_STEPS, min(map(len, rows)) - 1)
        if steps < 1:
            raise Skipped("the context has no room for prompts of different lengths")
        return [_Text(row, len(row) - steps, None) for row in rows]
    prefix, room = list(subject.roles.target_prefix), length - len(subject.roles.source(()))
    if room < 1 or length <= len(prefix):
        raise Skipped("the context has no room for a source and a target")
    targets = subject.ids(min(_STEPS, length - len(prefix))).tolist()
    return [
        _Text(prefix + target, len(prefix), source)
        for target, source in zip(targets, ragged(subject.sources(room)), strict=True)
    ]


def _alone(subject: VerifiedRun, text: _Text) -> Tensor:
    """Every prediction of one text, read at once.

    Shape:
        returns: (T, Vocab)
    """
    device = subject.run.device
    source = None if text.source is None else torch.tensor([subject.roles.source(text.source)], device=device)
    return predict(subject.model, ModelInputs(torch.tensor([text.ids], device=device), source))[0]


def _reader(subject: VerifiedRun, texts: list[_Text], steps: int) -> Reader:
    rows = ROWS + 1  # one of them will be there twice
    if isinstance(subject.model, EncoderDecoder):
        sources = [text.source or [] for text in texts]
        return read_sources(subject.model, sources, subject.roles, rows=rows, max_new_tokens=steps)
    assert isinstance(subject.model, Decoder)
    prompts = [text.ids[: text.start] for text in texts]
    return read_prompts(subject.model, prompts, rows=rows, max_new_tokens=steps)
