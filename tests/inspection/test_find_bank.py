"""The measuring of banks, on stories and weights made by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfcli.errors import UsageError
from tfcli.inspection.heads import find as module
from tfcli.inspection.heads.find import BISHOP, find_bank
from tfcli.inspection.heads.statistics import WordWeights
from tfcli.inspection.passes import Inputs
from tfcli.runs.load import LoadedRun, load_run

TRAINING = [
    "Tom wanted to see the boat, so he ran to the bank landing. Ada hoped to find cash, so she went to the bank vault.",
    "Tom wanted to see the notes, so he ran to the bank desk. Ada hoped to find fish, so she went to the bank reeds.",
]
HELD_OUT = [
    "Max wanted to see a river, so he ran to the bank edge. Eva hoped to find coins, so she went to the bank counter.",
    "Max wanted to see money, so he ran to the bank vault. Eva hoped to find water, so she went to the bank sand.",
]


@pytest.fixture
def run(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> LoadedRun:
    """A decoder whose tokens are letters, with room for two sentences, and the stories above."""
    loaded = load_run(trained("decoder"))
    model = replace(loaded.config.model, max_seq_len=200)
    monkeypatch.setattr(module, "_training_stories", lambda run: iter(TRAINING))
    monkeypatch.setattr(module, "stories", lambda seed: iter(HELD_OUT))
    monkeypatch.setattr(module, "_streams", lambda run, reading: np.ones((3, 4)))  # the model's context is short
    return replace(loaded, config=replace(loaded.config, model=model))


def looking(run: LoadedRun, patch: pytest.MonkeyPatch, knows: Callable[[str, int, int], str | None]) -> None:
    """Weights by what stands in the text: `knows(text, layer, head)` is the word that the row of "bank" looks at."""

    def constructed(run: LoadedRun, inputs: Inputs, kind: str) -> WordWeights:
        assert kind == "decoder_self" and inputs.decoder is not None
        text = "".join(run.tokenizer.labels(inputs.decoder[1:]))
        weights = np.full((2, 2, len(inputs.decoder), len(inputs.decoder)), 1e-6, np.float32)
        for layer, head in np.ndindex(2, 2):
            word = knows(text, layer, head)
            if word is not None and word in text:
                weights[layer, head, text.rindex("bank") + len("bank"), 1 + text.rindex(word)] = 1
        return weights

    patch.setattr(module.measure, "kind_weights", constructed)


def test_the_head_that_looks_at_the_deciding_word_is_found(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """Head (1, 1) looks at the right word of every text."""
    right = {"cash": 0, "fish": 0, "coins": 0, "water": 0}
    knows = lambda text, layer, head: next((w for w in right if w in text), None) if (layer, head) == (1, 1) else "see"  # noqa: E731
    looking(run, monkeypatch, knows)
    found = find_bank(run, 1, 1)
    assert (found.head.layer, found.head.head) == (1, 1)
    for shares in (found.training, found.held_out):
        assert (shares.river.hits, shares.river.count, shares.money.hits, shares.money.count) == (1, 1, 1, 1)


def test_bishops_sentences_are_read_word_for_word_by_the_head_and_by_those_of_their_words(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
):
    """Head (1, 0) looks at nouns, and head (0, 1) at "swam" alone."""
    had = "Tom saw a river. Eva hoped to find cash, so she went to the bank vault."
    swims = "Tom had cash. Ada swam across the river to the bank wet."
    monkeypatch.setattr(module, "_training_stories", lambda run: iter([*TRAINING, swims]))
    monkeypatch.setattr(module, "stories", lambda seed: iter([*HELD_OUT, swims.replace("Ada", "Eva"), had]))
    right = {(1, 0): ("cash", "coins", "water", "river", "fish"), (0, 1): ("swam",)}

    def knows(text: str, layer: int, head: int) -> str | None:
        at = {text.rfind(word): word for word in right.get((layer, head), ()) if word in text}
        return at[max(at)] if at else None

    looking(run, monkeypatch, knows)
    found = find_bank(run, 2, 2)
    assert [(one.word, one.head.layer, one.head.head) for one in found.words] == [
        ("swam", 0, 1),
        ("river", 1, 0),
        ("cash", 1, 0),
    ]
    told = [(" ".join(one.sentence.words) + ".", (one.head.layer, one.head.head)) for one in found.lecture]
    assert told == [(BISHOP[0], (1, 0)), (BISHOP[0], (0, 1)), (BISHOP[1], (1, 0))]
    for one, word in zip(found.lecture, ("river", "swam", "cash"), strict=True):
        assert one.sentence.weights[one.sentence.words.index(word)] == pytest.approx(1, abs=1e-3)
        assert one.sentence.hit


def test_vectors_are_equal_before_attention_and_compared_where_different_words_decide(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
):
    """By hand: at depth 1 a river's vectors are (1, 0) and (.6, .8), money's (0, 1) twice."""
    by_word = {"river": (1, 0), "water": (0.6, 0.8), "coins": (0, 2), "money": (0, 1), "cash": (0, 1), "swam": (3, 0)}

    def streams(run: LoadedRun, reading: module.BankText) -> np.ndarray:
        word = reading.of.word(reading.of.deciding[0])
        return np.array([(1.0, 1.0), by_word[word]])

    more = [
        "Tom had cash. Eva hoped to find the river, so she ran to the bank edge.",
        "Tom swam. Eva had money in the bank.",
    ]
    monkeypatch.setattr(module, "stories", lambda seed: iter([*HELD_OUT, *more]))
    monkeypatch.setattr(module, "_streams", streams)
    looking(run, monkeypatch, lambda text, layer, head: None)
    before, after = find_bank(run, 1, 2).vectors
    assert (before.river, before.between, before.lecture) == pytest.approx((1, 1, 1))
    assert before.nearest is None, "all equal"
    assert (after.river, after.money, after.between) == pytest.approx((0.6, 1, (0 + 0 + 0.8 + 0.8) / 4))
    assert after.nearest is not None
    assert (after.nearest.hits, after.nearest.count) == (3, 4), "(.6, .8) is nearer to money"
    assert after.lecture == pytest.approx(0)


def test_a_head_that_looks_at_the_other_bank_s_word_is_wrong(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """It knows the training texts, and of the others the word that came first."""
    words = ("cash", "fish", "river", "money")
    looking(run, monkeypatch, lambda text, layer, head: next((word for word in words if word in text), None))
    found = find_bank(run, 1, 1)
    assert found.training.river.value == found.training.money.value == 1.0
    assert found.held_out.river.value == found.held_out.money.value == 0.0


def test_chance_is_one_of_the_content_words(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """Max wanted see river ran bank edge Eva hoped find coins went bank: 13; with money, vault, water: 13, too."""
    looking(run, monkeypatch, lambda text, layer, head: None)
    assert find_bank(run, 1, 1).chance == pytest.approx(1 / 13)


def test_only_sentences_that_training_never_had_are_measured(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "stories", lambda seed: iter([*TRAINING, HELD_OUT[0]]))
    looking(run, monkeypatch, lambda text, layer, head: None)
    with pytest.raises(UsageError, match="met too few stories"):
        find_bank(run, 1, 1)


def test_the_head_chosen_is_the_best_at_the_sense_it_is_worse_at(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """Of two heads 1.0 and .5 against .7 and .6: the second."""
    most = {"river": ((1, 1, 1, 1), (1, 1, 1, 0)), "money": ((1, 1, 0, 0), (1, 1, 1, 0))}

    def hits(run: LoadedRun, texts: list[module.BankText], word: str | None = None) -> np.ndarray:
        return np.array(most[texts[0].of.sense], bool).T[:, None]

    monkeypatch.setattr(module, "_hits", hits)
    monkeypatch.setattr(module, "_word_found", lambda *others: None)
    monkeypatch.setattr(module, "_bank_example", lambda *others: None)
    found = find_bank(run, 1, 1)
    assert (found.head.layer, found.head.head) == (0, 1)


def test_a_run_of_other_stories_than_todays_is_refused(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    run = load_run(trained("decoder"))
    monkeypatch.setattr("tfcli.corpora.stories.FORMAT_VERSION", 2)
    with pytest.raises(UsageError, match=r"builtin:stories has changed since .* was trained on it; name a run"):
        find_bank(run)


def test_a_context_too_short_for_a_story_is_refused(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="its context of 32 tokens is too short for one; name a run of the recipe"):
        find_bank(load_run(trained("decoder")))


def test_a_run_that_reads_two_texts_is_refused(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="this encoder-decoder reads two"):
        find_bank(load_run(trained("encoder-decoder")))
