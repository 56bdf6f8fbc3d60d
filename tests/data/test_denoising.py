"""Span corruption and infilling: against the papers' figures, shares and means."""

from collections import Counter
from itertools import islice
from math import exp, factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import ROLES
from tfcli.data import denoising
from tfcli.data.batch import IGNORED, generator
from tfcli.data.dataset import TokenStreamView
from tfcli.data.denoising import (
    DenoisingBatches,
    corrupt_spans,
    find_sentinels,
    infill,
    sentinel_names,
    span_counts,
)
from tfcli.errors import UsageError

FIRST = 1000
SENTINELS = np.arange(FIRST, FIRST + 200)


class Scripted:
    """A generator that gives what it was told, one answer a question."""

    def __init__(self, choices: list[list[int]], poisson: list[int] | None = None) -> None:
        self.choices, self.lengths = iter(choices), iter(poisson or [])

    def choice(self, of: int, size: int, *, replace: bool) -> np.ndarray:
        found = np.array(next(self.choices), dtype=np.int64)
        assert len(found) == size and not replace and all(0 <= one < of for one in found)
        return found

    def poisson(self, mean: float) -> int:
        assert mean == 3
        return next(self.lengths)

    def permutation(self, values: np.ndarray) -> np.ndarray:
        return values


def batches(stream: np.ndarray, kind: Any = "span-corruption", **settings: Any) -> DenoisingBatches:
    settings = {"batch_size": 4, "context": 32, "seed": 0, "sentinels": SENTINELS.tolist()} | settings
    return DenoisingBatches(TokenStreamView([stream]), ROLES, kind=kind, **settings)


def text(tokens: int) -> np.ndarray:
    """Ordinary tokens, 5 … 99 over and over."""
    return np.arange(tokens, dtype=np.uint16) % 95 + 5


def test_the_figure_of_t5(monkeypatch: pytest.MonkeyPatch) -> None:
    # Figure 2 of the paper has two spans of three tokens together, more than 15 % of ten: cuts behind 0 + 1 + 1 tokens
    # make spans of 2 and 1, and before them stand 2 and 6 of the seven tokens that are left.
    monkeypatch.setattr(denoising, "span_counts", lambda tokens: (np.array(3), np.array(2)))
    words = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]
    ids = {word: number for number, word in enumerate([*words, "<X>", "<Y>", "<Z>"])}
    sentinels = np.array([ids["<X>"], ids["<Y>"], ids["<Z>"]])
    draw: Any = Scripted([[1], [6, 2]])
    sides = corrupt_spans(np.arange(10), sentinels, draw)
    spelled = [" ".join([*ids][one] for one in side) for side in sides]
    assert spelled == ["Thank you <X> me to your party <Y> week", "<X> for inviting <Y> last <Z>"]


def test_the_figure_of_bart() -> None:
    # "A B C . D E ." becomes "A _ . D _ E .": lengths 0 and 2 are drawn, 2 = 30 % of 7 rounded; the empty span is put
    # behind the other, and they are the second and the fifth of the seven places of the source.
    draw: Any = Scripted([[4, 1]], [0, 2])
    source, target = infill(np.array([10, 11, 12, 9, 13, 14, 9]), 3, draw)
    assert source.tolist() == [10, 3, 9, 13, 3, 14, 9]
    assert target.tolist() == [10, 11, 12, 9, 13, 14, 9]


def test_windows_are_as_long_as_in_t5() -> None:
    # random_spans_helper of T5's code finds 568 tokens for sources of 512, whose targets are of 114: 85 tokens behind
    # 28 sentinels, and </s>. Here is the last sentinel of the paper's figure as well.
    made = batches(text(5680), context=512, batch_size=1)
    for batch in islice(made.training(), 5):
        assert batch.input_ids.shape == (1, 512)
        assert batch.labels.shape == (1, 115)
        assert batch.tokens == 512 + 115


def test_sentinels_that_are_made_suffice() -> None:
    assert sentinel_names(512)[:2] == ["<extra_id_0>", "<extra_id_1>"]
    for context in [*range(4, 600), 1024, 4096]:
        made = sentinel_names(context)
        batches(text(20), context=context, sentinels=range(len(made)))
    # and not many more: 28 spans of 568 tokens need 29.
    assert len(sentinel_names(512)) <= 31


def restored(source: list[int], target: list[int]) -> list[int]:
    """The text that both sides tell of."""
    spans: dict[int, list[int]] = {}
    for token in target:
        if token >= FIRST:
            spans[token] = []
        else:
            spans[[*spans][-1]].append(token)
    assert [*spans] == [*range(FIRST, FIRST + len(spans))]
    assert [len(span) > 0 for span in spans.values()] == [True] * (len(spans) - 1) + [False]
    return [one for token in source for one in (spans[token] if token >= FIRST else [token])]


@given(st.integers(1, 300), st.integers(0, 5))
def test_no_token_is_lost_and_spans_stand_apart(tokens: int, seed: int) -> None:
    source, target = corrupt_spans(np.arange(tokens), SENTINELS, generator(seed))
    assert restored(source.tolist(), target.tolist()) == [*range(tokens)]
    is_sentinel = source >= FIRST
    assert not (is_sentinel[1:] & is_sentinel[:-1]).any()
    corrupted, spans = span_counts(np.array(tokens))
    assert (len(target), len(source)) == (corrupted + spans + 1, tokens - corrupted + spans)


def test_shares_and_means_are_those_of_the_papers() -> None:
    lengths = np.arange(100, 1100)
    corrupted, spans = span_counts(lengths)
    assert abs(corrupted.sum() / lengths.sum() - 0.15) < 1e-3
    assert abs(corrupted.sum() / spans.sum() - 3) < 0.02
    # Infilling takes as many Poisson lengths as reach 300 tokens: E(w) = 1 + Σ p(l) E(w − l), solved for l = 0.
    p = [exp(-3) * 3**length / factorial(length) for length in range(60)]
    expected = [0.0]
    for wanted in range(1, 301):
        further = sum(p[length] * expected[wanted - length] for length in range(1, min(60, wanted + 1)))
        expected.append((1 + further) / (1 - p[0]))
    draw = generator(3)
    masks = [int((infill(np.arange(5, 1005), 3, draw).source == 3).sum()) for _ in range(400)]
    # √(300 · 3 / 27) = 5.8 masks are a standard deviation of a window, and 0.29 of the mean of 400.
    assert abs(np.mean(masks) - expected[300]) < 5 * 0.29


def test_every_place_and_every_division_is_as_likely() -> None:
    # 20 tokens: 3 in one span, in one of 18 gaps. 40: 6 in two spans, of lengths 1 + 5 to 5 + 1.
    draw = generator(11)
    places, lengths = Counter[int](), Counter[int]()
    for _ in range(9000):
        source, _ = corrupt_spans(np.arange(20), SENTINELS, draw)
        places[int(np.argmax(source >= FIRST))] += 1
        _, target = corrupt_spans(np.arange(40), SENTINELS, draw)
        lengths[int(np.flatnonzero(target >= FIRST)[1]) - 1] += 1
    for counts, cells in ((places, 18), (lengths, 5)):
        expected = 9000 / cells
        chi_square = sum((counts[one] - expected) ** 2 / expected for one in counts)
        assert len(counts) == cells
        assert chi_square < cells - 1 + 4 * (2 * (cells - 1)) ** 0.5


@given(st.integers(1, 200), st.integers(0, 5))
def test_infilling_keeps_what_is_not_hidden_in_order(tokens: int, seed: int) -> None:
    ids = np.arange(5, 5 + tokens)
    source, target = infill(ids, 3, generator(seed))
    kept = source[source != 3]
    assert target.tolist() == ids.tolist()
    assert len(kept) == tokens - max(1, round(0.3 * tokens))
    assert (np.diff(kept) > 0).all()
    assert len(kept) < len(source) <= tokens


def test_sides_are_framed_as_pairs_are() -> None:
    # <s> a b c d e </s>: without what frames it five tokens, one of them in a span.
    stream = np.array([1, 10, 11, 12, 13, 14, 2], dtype=np.uint16)
    [batch] = batches(stream, batch_size=1).whole()
    source, labels = batch.input_ids[0].tolist(), batch.labels[0].tolist()
    assert source[-1] == 2 and labels[-1] == 2
    assert batch.decoder_input_ids is not None
    assert batch.decoder_input_ids[0].tolist() == [ROLES.bos, *labels[:-1]]
    assert restored(source[:-1], labels[:-1]) == [10, 11, 12, 13, 14]
    [batch] = batches(stream, "infilling", batch_size=1).whole()
    assert batch.labels[0].tolist() == [10, 11, 12, 13, 14, 2]


def test_a_window_without_text_asks_for_nothing() -> None:
    [batch] = batches(np.array([1, 2], dtype=np.uint16), batch_size=1).whole()
    assert (batch.labels == IGNORED).all()


@pytest.mark.parametrize("kind", ["span-corruption", "infilling"])
def test_what_is_hidden_follows_from_seed_and_number(kind: str) -> None:
    stream = text(2000)
    made = batches(stream, kind, seed=4)
    first, again = list(islice(made.training(), 40)), list(islice(made.training(25), 15))
    for ours, theirs in zip(first[25:], again, strict=True):
        assert all(np.array_equal(ours_, vars(theirs)[name]) for name, ours_ in vars(ours).items())
    other = next(batches(stream, kind, seed=5).training())
    assert not np.array_equal(first[0].input_ids, other.input_ids)
    # `whole` is the same for every seed and batch size.
    rows = [
        [
            row[row != IGNORED].tolist()
            for batch in batches(stream, kind, seed=s, batch_size=b).whole()
            for row in batch.labels
        ]
        for s, b in ((1, 4), (2, 7))
    ]
    assert rows[0] == rows[1]


def test_batches_of_tokens_hold_their_budget() -> None:
    stream = np.concatenate([[1, *text(n), 2] for n in range(1, 30)]).astype(np.uint16)
    ends = np.cumsum([n + 2 for n in range(1, 30)])
    view = TokenStreamView([stream], [np.array([0, *ends])])
    made = DenoisingBatches(
        view,
        ROLES,
        kind="span-corruption",
        sentinels=SENTINELS.tolist(),
        context=32,
        batch_tokens=128,
        batch_size=1,
        seed=0,
        documents=True,
    )
    assert all(batch.places <= 128 for batch in islice(made.training(), 2 * made.batches_per_epoch))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match=r"needs 3 sentinels, <extra_id_0> and following, and this tokenizer has no"):
        batches(text(100), sentinels=())
    with pytest.raises(UsageError, match="has 2 sentinels"):
        batches(text(100), sentinels=(7, 8))
    with pytest.raises(UsageError, match=r"train\.context = 2 has no room"):
        batches(text(100), context=2)
    with pytest.raises(UsageError, match=r"train\.batch_tokens = 20 cannot hold one window of 34 tokens"):
        batches(text(100), batch_tokens=20)


def test_sentinels_are_found_by_name() -> None:
    assert find_sentinels({"<extra_id_0>": 9, "<extra_id_1>": 8, "<extra_id_3>": 7}.get) == (9, 8)
    assert find_sentinels({}.get) == ()
