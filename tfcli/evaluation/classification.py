"""Scores of task heads: macro-F1 and the confusion of labels, entity F1, exact match and F1 of spans.

Every score is a function of sums over texts, so that it can be resampled. Macro-F1 is the mean of the labels' own
F1 = 2 tp / (predicted + true), over those that are predicted or true somewhere. Entity F1 counts an entity as right
where its type and both its ends are (Tjong Kim Sang and De Meulder 2003, section 2.3); F1 of spans is that of their
tokens, and exact match the share of spans with both ends right (Rajpurkar et al. 2016, section 6.1).
Shape legend: R texts, N labels of a batch, C labels that are told apart, K sums."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.evaluation.bootstrap import Array, Score
from tfcli.evaluation.intervals import unseen_error, unseen_error_of_labels
from tfcli.evaluation.windows import scoring
from tfcli.models.objective import best_spans, targets_of
from tfcli.models.transformer import Transformer

COUNTED = 3  # sums that every task has first: nats, labels, and those that were right


class Judged(NamedTuple):
    """Labels of a batch: the number of their row, the true, the predicted, and −log p of the true one; each (N,)."""

    rows: NDArray[np.int64]
    gold: NDArray[np.int64]
    predicted: NDArray[np.int64]
    nats: NDArray[np.float64]


def judged(model: Transformer, batch: Batch, device: torch.device) -> Judged:
    """What a task head makes of a batch, in float32. Of spans, the last token is not before the first."""
    logits, labels = map(torch.cat, zip(*targets_of(model, batch, device), strict=True))
    logits, kept = logits.float(), labels != IGNORED
    predicted = logits.argmax(-1) if batch.answerable is None else best_spans(logits)[0].flatten()
    nats = F.cross_entropy(logits, labels, reduction="none").double()
    found = (one[kept].cpu().numpy() for one in (labels, predicted, nats))
    return Judged(np.nonzero(batch.labels != IGNORED)[0], *found)


def is_bio(labels: Sequence[str]) -> bool:
    """Whether labels are B-TYPE, I-TYPE and O."""
    return all(re.fullmatch(r"O|[BI]-.+", one) for one in labels) and any(one.startswith("B-") for one in labels)


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities that BIO tags spell, by type, first word and the one behind the last; an I- that goes on with
    nothing begins one, as in conlleval.

    >>> sorted(entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [('LOC', 3, 4), ('LOC', 4, 5), ('PER', 0, 2)]
    """
    found, begin, kind = set(), 0, ""
    for place, tag in enumerate([*tags, "O"]):
        own = tag[2:]
        if kind and not (tag.startswith("I-") and own == kind):
            found.add((kind, begin, place))
            kind = ""
        if own and not kind:
            begin, kind = place, own
    return found


class TaskScores:
    """The sums of a text under a task, and the scores that they give, by name; the last says most."""

    def __init__(self, task: str, labels: Sequence[str]) -> None:
        self.task, self.labels = task, labels
        self.entities = task == "tag" and is_bio(labels)
        classes = COUNTED + 3 * len(labels)
        self.width = COUNTED + 2 if task == "span" else classes + 3 * self.entities
        self.scores: dict[str, Score] = {"macro_f1": lambda sums: macro_f1(sums[..., COUNTED:classes])}
        if self.entities:
            self.scores["entity_f1"] = lambda sums: _f1(sums[..., -3], sums[..., -2:].sum(-1))
        if task == "span":  # of whose sums the second counts two labels a text
            self.scores = {"exact_match": lambda sums: sums[..., -2] / (sums[..., 1] / 2)}
            self.scores["span_f1"] = lambda sums: sums[..., -1] / (sums[..., 1] / 2)

    def sums(self, found: Judged, rows: int) -> Array:
        """Of each text of a batch. Shape: (R, K)."""
        sums, right = np.zeros((rows, self.width)), found.gold == found.predicted
        for column, values in enumerate((found.nats, None, right)):
            sums[:, column] = np.bincount(found.rows, values, rows)
        ends = np.cumsum(sums[:, 1].astype(np.int64))[:-1]
        pairs = zip(*(map(np.ndarray.tolist, np.split(of, ends)) for of in (found.gold, found.predicted)), strict=True)
        if self.task == "span":
            sums[:, COUNTED:] = [(gold == guess, span_f1(gold, guess)) for gold, guess in pairs]
            return sums
        for column, values in enumerate((found.gold, found.predicted, found.gold)):
            np.add.at(sums, (found.rows, COUNTED + column * len(self.labels) + values), right if column == 0 else 1)
        if self.entities:
            for row, sides in enumerate(pairs):
                true, told = (entities([self.labels[label] for label in side]) for side in sides)
                sums[row, -3:] = len(true & told), len(told), len(true)
        return sums

    def exact_matches(self, sums: Array) -> Array:
        """Of each text under the task "span", the answers that are right and all answers. Shape: (R, 2)."""
        return np.stack([sums[:, -2], sums[:, 1] / 2], axis=1)

    def unseen_errors(self, sums: Array) -> dict[str, float]:
        """For each F1, the share of mistakes that these texts, (R, K), would not exclude if all were right.

        A label is seen in the texts that have it, and entities in the texts with any. See `intervals.unseen_error`.
        """
        if self.task == "span":
            return {"span_f1": unseen_error(int((sums[:, 1] > 0).sum()))}
        count = len(self.labels)
        true = sums[:, COUNTED + 2 * count : COUNTED + 3 * count]
        texts_with_label = (true > 0).sum(0)
        errors = {"macro_f1": unseen_error_of_labels(texts_with_label[texts_with_label > 0].tolist())}
        if self.entities:
            errors["entity_f1"] = unseen_error(int((sums[:, -2:].sum(1) > 0).sum()))
        return errors

    def chance(self, total: Array) -> float | None:
        """The accuracy of whoever always says the most frequent label."""
        true = total[COUNTED + 2 * len(self.labels) : COUNTED + 3 * len(self.labels)]
        return None if self.task == "span" else float(true.max() / true.sum())


def macro_f1(sums: Array) -> Array:
    """From right ones, predicted ones and true ones of each label. Shape: (…, 3C) → (…)."""
    right, told, true = np.split(sums, 3, axis=-1)
    return _f1(right, told + true).sum(-1) / (told + true > 0).sum(-1)


def span_f1(gold: Sequence[int], guess: Sequence[int]) -> float:
    """F1 of the tokens of two spans, each from its first token to its last.

    >>> span_f1((3, 5), (5, 5)), span_f1((3, 4), (5, 6))
    (0.5, 0.0)
    """
    common = max(0, min(gold[1], guess[1]) - max(gold[0], guess[0]) + 1)
    return 2 * common / (gold[1] - gold[0] + guess[1] - guess[0] + 2)


def _f1(right: Array, told_and_true: Array) -> Array:
    """2 tp / (predicted + true); 0 where there is neither."""
    return 2 * right / np.maximum(told_and_true, 1)


class Told(NamedTuple):
    """The sums of every text, (R, K), in the order of the batches, how often each label, by row, was taken for each, by
    column, (C, C), of spans empty; and the scores that the sums give."""

    sums: Array
    confusion: NDArray[np.int64]
    scores: TaskScores


@torch.inference_mode()
def told(model: Transformer, batches: Iterable[Batch], task: str, device: torch.device) -> Told:
    """Judge all labels once, without dropout."""
    scores = TaskScores(task, model.section.labels or ())
    classes = 0 if task == "span" else len(scores.labels)
    found, confusion = [np.zeros((0, scores.width))], np.zeros((classes, classes), np.int64)
    with scoring(model):
        for batch in batches:
            one = judged(model, batch, device)
            if classes:
                np.add.at(confusion, (one.gold, one.predicted), 1)
            found.append(scores.sums(one, len(batch.input_ids)))
    return Told(np.concatenate(found), confusion, scores)
