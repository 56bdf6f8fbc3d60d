"""Labelled texts as token ids: classification, token classification and span extraction (SQuAD), in batches.

Beside each token stands a number. classify: that of the text's label. tag: that of a word's tag at the first piece of
the word (Devlin et al. 2019, section 5.3), which alone is scored. span: 1 at every token of the context; 2 at the first
one of the answer, 3 at the last, 4 where both are one. 0: nothing. Labels are numbered from 1, in order of their names.

Shape legend: B texts, S tokens of the longest, C labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import PARTS, Labelled, Part, batched
from tfcli.corpora.cleaning import document_key
from tfcli.data.batch import IGNORED
from tfcli.data.chunks import COUNTED
from tfcli.data.dataset import PairsView
from tfcli.data.shards import SHARD_TOKENS, SIDES, Manifest
from tfcli.data.writer import ChunkWriter, Encoding
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.recipe.recipe import SPAN_LABELS

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer

Spans = list[tuple[int, int]]
CONTEXT, FIRST, LAST, BOTH = 1, 2, 3, 4


def pieces_of(spans: Spans, start: int, end: int) -> list[int]:
    """The places of tokens with a part in characters from `start` up to `end`.

    >>> pieces_of([(0, 3), (3, 7), (7, 9)], 4, 8)
    [1, 2]
    """
    return [place for place, (begin, stop) in enumerate(spans) if begin < end and stop > start]


def write_labelled(division: TrainValidationSplit, tokenizer: Tokenizer, folder: Path, about: Encoding) -> Manifest:
    """Encode labelled texts into `folder`, as ``<s> ids </s>`` and a number beside each token. Labels are those of the
    training part: a BrokenInputError where validation has others, or no token is of an answer; a UsageError of an
    empty part."""
    kind, roles = about.kind, tokenizer.roles

    def texts() -> Iterator[tuple[Part, Labelled]]:
        return ((part, one) for part, one in division.parts() if isinstance(one, Labelled))

    labels: tuple[str, ...] = SPAN_LABELS
    if kind != "span":
        labels = tuple(sorted({label for part, one in texts() if part == "train" for *_, label in one.spans}))
    number = {label: place for place, label in enumerate(labels, 1)}
    keys: dict[Part, list[int]] = {part: [] for part in PARTS}
    before = sum(len(roles.stored_start(side)) for side in SIDES[kind])
    writer = ChunkWriter(about, tokenizer, folder, SHARD_TOKENS, labels=labels)
    with writer.opened() as writers:
        for batch in batched(texts(), lambda one: one[1].source):
            encoded = tokenizer.encode_spans([one.source for _, one in batch])
            for (part, one), (ids, spans) in zip(batch, encoded, strict=True):
                beside, read, text = _numbers(one, spans, kind, number), roles.text(ids), one.source
                filling = beside[:1] if kind == "classify" and beside else [0]
                row = filling * len(roles.text_prefix) + beside + filling * len(roles.end)
                ends = np.array([len(read)])
                writers[part].write({"source": (np.array(read), ends), "target": (np.array(row), ends)})
                if division.may_overlap:
                    keys[part].append(document_key(one))
                counts = 1, 2 * len(read) - before, len(text.encode()), len(text), tokenizer.count_unknown(ids)
                writer.sums[part][: len(COUNTED)] += counts
    writer.copies = sum(map(frozenset(keys["train"]).__contains__, keys["validation"]))
    return writer.finish(labels=labels, skipped=division.skipped())


def _numbers(one: Labelled, spans: Spans, kind: str, number: dict[str, int]) -> list[int]:
    """What stands beside each token of a text."""
    if kind == "span":
        [(start, end, answer)] = one.spans
        begin = one.source.index("\n") + 1
        beside = [CONTEXT if stop > begin else 0 for _, stop in spans]
        pieces = pieces_of(spans, start, end)
        if not pieces:
            problem = f"{one.place} has the answer {shortened(repr(answer))}, of which the tokenizer keeps nothing"
            raise BrokenInputError(problem, "use a tokenizer that knows these characters")
        beside[pieces[0]], beside[pieces[-1]] = (FIRST, LAST) if len(pieces) > 1 else (BOTH, BOTH)
        return beside
    beside = [0] * len(spans)
    for start, end, label in one.spans:
        if label not in number:
            problem = f"{one.place} has the label {shortened(repr(label))}, which the training part never has"
            raise BrokenInputError(problem, "give training texts with it, or another data.split")
        if kind == "classify":
            return [number[label]] * len(spans)
        for piece in pieces_of(spans, start, end)[:1]:
            beside[piece] = number[label]
    return beside


def numbers_of(manifest: Manifest, labels: tuple[str, ...]) -> NDArray[np.int64]:
    """By what a dataset stores, the number of the label among `labels`. A UsageError names one that is not there."""
    if others := [label for label in manifest.labels if label not in labels]:
        sources, known = ", ".join(manifest.sources), shortened(", ".join(labels))
        problem = f"{sources} has the label {shortened(repr(others[0]))}, and the model tells {known}"
        raise UsageError(problem, "train a model that tells it, or rename the label")
    return np.array([IGNORED, *(labels.index(label) for label in manifest.labels)])


def class_weights(view: PairsView, numbers: NDArray[np.int64], labels: int, task: str) -> NDArray[np.float64]:
    """Balanced class weights N / (C · n), n the labels of a class among all N (King and Zeng 2001): all classes weigh
    the same, and a label weighs 1 on average. A class that never occurs weighs 0. Shape: (C,)."""
    counts = np.zeros(labels, np.int64)
    for text in range(len(view)):
        found = numbers[view.target.sequence(text)[: 1 if task == "classify" else None]]
        counts += np.bincount(found[found != IGNORED], minlength=labels)
    return np.where(counts, counts.sum() / (max(1, np.count_nonzero(counts)) * np.maximum(counts, 1)), 0.0)
