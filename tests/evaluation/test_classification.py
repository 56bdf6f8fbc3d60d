"""Macro-F1, entity F1, exact match and F1 of spans, against cases by hand and the definitions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.evaluation.classification import Judged, TaskScores, Told, entities, is_bio, macro_f1, span_f1
from tfcli.evaluation.evaluate import _known_intervals, score_table
from tfcli.evaluation.measure import Sums
from tfcli.evaluation.windows import Cells
from tfcli.models.objective import best_spans


def found(rows: list[int], gold: list[int], predicted: list[int]) -> Judged:
    return Judged(np.array(rows), np.array(gold), np.array(predicted), np.full(len(rows), 0.5))


def test_macro_f1_is_the_mean_of_the_labels() -> None:
    # a: 2 right, 3 told, 2 true: 4/5. b: 1, 1, 2: 2/3. c never occurs and is never told: it has no part.
    scores = TaskScores("classify", ("a", "b", "c"))
    sums = scores.sums(found([0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 1]), 4)
    assert sums[:, :3].tolist() == [[0.5, 1, 1], [0.5, 1, 1], [0.5, 1, 0], [0.5, 1, 1]]
    assert scores.scores["macro_f1"](sums.sum(0)) == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert scores.chance(sums.sum(0)) == 0.5
    assert [*scores.scores][-1] == "macro_f1"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_by_precision_and_recall(pairs: list[tuple[int, int]]) -> None:
    gold, told = np.array(pairs).T
    each = []
    for label in sorted({*gold.tolist(), *told.tolist()}):
        right = int(((gold == label) & (told == label)).sum())
        precision, recall = right / max(1, (told == label).sum()), right / max(1, (gold == label).sum())
        each.append(2 * precision * recall / (precision + recall) if right else 0.0)
    counts = [np.bincount(some, minlength=5) for some in (gold[gold == told], told, gold)]
    assert macro_f1(np.concatenate(counts).astype(float)) == pytest.approx(np.mean(each))


def test_entities_are_right_where_type_and_both_ends_are() -> None:
    labels = ("O", "B-PER", "I-PER", "B-LOC")
    scores = TaskScores("tag", labels)
    # True: PER 0–2, LOC 3–4; told: PER 0–1, LOC 3–4, and in the second text a PER that is none.
    gold, told = [1, 2, 0, 3, 0], [1, 0, 0, 3, 1]
    sums = scores.sums(found([0, 0, 0, 0, 1], gold, told), 2)
    assert sums[:, -3:].tolist() == [[1, 2, 2], [0, 1, 0]]
    assert scores.scores["entity_f1"](sums.sum(0)) == pytest.approx(2 * 1 / (3 + 2))
    assert [*scores.scores][-1] == "entity_f1"
    assert sums[:, 1].tolist() == [4, 1]


@pytest.mark.parametrize(
    ("tags", "spelled"),
    [
        ("B-A I-A I-A", [("A", 0, 3)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("I-A O I-B", [("A", 0, 1), ("B", 2, 3)]),
        ("B-A I-B I-B", [("A", 0, 1), ("B", 1, 3)]),
        ("O O", []),
    ],
)
def test_entities_that_tags_spell(tags: str, spelled: list[tuple[str, int, int]]) -> None:
    assert sorted(entities(tags.split()), key=lambda one: one[1]) == spelled


def test_which_tags_are_bio() -> None:
    assert is_bio(("B-X", "I-X", "O"))
    assert not is_bio(("NOUN", "O"))
    assert not is_bio(("O",))
    assert not TaskScores("tag", ("NOUN", "VERB")).entities


def test_exact_match_and_f1_of_spans() -> None:
    # The first has both ends; of the second, 2–4 and 3–6 have two of 3 + 4 tokens in common: 4/7.
    scores = TaskScores("span", ("first", "last"))
    sums = scores.sums(found([0, 0, 1, 1], [1, 2, 2, 4], [1, 2, 3, 6]), 2)
    total = sums.sum(0)
    assert scores.scores["exact_match"](total) == 0.5
    assert scores.scores["span_f1"](total) == pytest.approx((1 + 4 / 7) / 2)
    assert scores.chance(total) is None
    assert span_f1((2, 4), (3, 6)) == pytest.approx(4 / 7)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 2**31))
def test_the_best_span_of_all(rows: int, size: int, seed: int) -> None:
    logits = torch.randn(2 * rows, size, generator=torch.Generator().manual_seed(seed)).double()
    if size > 2:
        logits[:, 0] = -torch.inf  # outside the context
    spans, probabilities = best_spans(logits)
    first, last = logits[0::2].softmax(-1), logits[1::2].softmax(-1)
    for row in range(rows):
        every = {(i, j): float(first[row, i] * last[row, j]) for i in range(size) for j in range(i, size)}
        best = max(every, key=lambda one: every[one])
        assert tuple(spans[row].tolist()) == best
        assert float(probabilities[row]) == pytest.approx(every[best] / sum(every.values()))


def test_what_right_texts_do_not_exclude() -> None:
    """Of 3 texts 2 have "a", 3 have "b" and none "c"; 1 has an entity. z²/(n + z²) is 0.6576, 0.5615 and, for one
    text, 0.7935; macro-F1 has √(0.6576² + 0.5615²) / 2 = 0.4324."""
    labels = ("B-PER", "O", "I-PER")
    scores = TaskScores("tag", labels)
    sums = scores.sums(found([0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 1, 1]), 3)
    errors = scores.unseen_errors(sums)
    assert errors["entity_f1"] == pytest.approx(0.7935, abs=1e-4)
    twice = scores.sums(found([0, 0, 1, 1, 2], [0, 1, 0, 1, 1], [0, 1, 0, 1, 1]), 3)
    assert scores.unseen_errors(twice)["macro_f1"] == pytest.approx(0.4324, abs=1e-4)
    assert scores.unseen_errors(twice)["entity_f1"] == pytest.approx(0.6576, abs=1e-4)


@pytest.mark.parametrize(
    ("task", "labels"), [("classify", ("a", "b")), ("tag", ("B-PER", "O")), ("span", ("first", "last"))]
)
@pytest.mark.parametrize("right", [True, False])
def test_no_interval_of_a_task_head_has_zero_width(task: str, labels: tuple[str, ...], right: bool) -> None:
    """41 texts with two labels each, all right or all wrong; each score's interval has its score as one end."""
    scores = TaskScores(task, labels)
    rows = np.repeat(np.arange(41), 2).tolist()
    gold = np.tile([0, 1], 41) if task != "span" else np.tile([3, 4], 41)
    predicted = gold if right else (1 - gold if task != "span" else gold + 4)
    told = Told(scores.sums(found(rows, gold.tolist(), predicted.tolist()), 41), np.zeros((2, 2), np.int64), scores)
    tokens, correct = told.sums[:, 1:3].astype(np.int64).T
    sums = Sums(told.sums[:, 0], tokens, correct, np.zeros(41, np.int64), np.zeros(41))
    numbers = np.arange(41)
    measured: Any = SimpleNamespace(
        cells=Cells(None, numbers, numbers, "documents"),
        sums=sums,
        extent=None,
        pseudo=None,
        told=told,
        translated=None,
    )
    intervals = _known_intervals(measured, score_table(measured))
    bounded = intervals.keys() - {"loss", "perplexity"}
    assert bounded == {"accuracy", *scores.scores}
    for name in bounded:
        low, high = intervals[name]
        expected = (0.80, 1.0) if right else (0.0, 0.20)
        assert (low, high)[right] == expected[right], name
        assert 0.05 < high - low < 0.2, name
