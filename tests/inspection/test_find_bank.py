"""The measuring of banks, on stories and weights made by hand."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfcli.corpora.stories import bank_sentences
from tfcli.errors import UsageError
from tfcli.inspection.heads import find as module
from tfcli.inspection.heads.find import find_bank, read
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
    return replace(loaded, config=replace(loaded.config, model=model))


def looking(run: LoadedRun, patch: pytest.MonkeyPatch, knows: Callable[[str, int, int], str | None]) -> None:
    """Weights by what stands in the text: `knows(text, layer, head)` is the word that all rows look at."""

    def constructed(run: LoadedRun, inputs: Inputs, kind: str) -> WordWeights:
        assert kind == "decoder_self" and inputs.decoder is not None
        text = "".join(run.tokenizer.labels(inputs.decoder[1:]))
        weights = np.full((2, 2, len(inputs.decoder), len(inputs.decoder)), 1e-6, np.float32)
        for layer, head in np.ndindex(2, 2):
            word = knows(text, layer, head)
            if word is not None and word in text:
                weights[layer, head, :, 1 + text.rindex(word)] = 1
        return weights

    patch.setattr(module, "kind_weights", constructed)


def test_the_head_that_looks_at_the_deciding_word_is_found(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """Head (1, 1) looks at the right word of every text; shuffled letters spell no word any more."""
    right = {"cash": 0, "fish": 0, "coins": 0, "water": 0}
    knows = lambda text, layer, head: next((w for w in right if w in text), None) if (layer, head) == (1, 1) else "see"  # noqa: E731
    looking(run, monkeypatch, knows)
    found = find_bank(run, 1, 1)
    assert (found.head.layer, found.head.head, found.row) == (1, 1, "bank")
    for shares in (found.training, found.held_out):
        assert (shares.river.hits, shares.river.count, shares.money.hits, shares.money.count) == (1, 1, 1, 1)
    assert (found.shuffled.river.hits, found.shuffled.money.hits) == (0, 0)
    assert found.examples[0].words[found.examples[0].right[0]] == "water"
    assert found.examples[0].query == "bank"


def test_a_head_that_looks_at_the_other_bank_s_word_is_wrong(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """It knows the training texts, and of the others the word that came first."""
    words = ("cash", "fish", "river", "money")
    looking(run, monkeypatch, lambda text, layer, head: next((word for word in words if word in text), None))
    found = find_bank(run, 1, 1)
    assert found.training.river.value == found.training.money.value == 1.0
    assert found.held_out.river.value == found.held_out.money.value == 0.0
    assert not found.examples[0].hit


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
    """(row 0) 1.0 and .2, (row 1) .7 and .6: the second."""
    hits = [np.array([[[[n < many]] for many in rows] for n in range(10)]) for rows in ((10, 7), (2, 6))]
    looking(run, monkeypatch, lambda text, layer, head: None)
    monkeypatch.setattr(module, "_hits_by_sense", lambda run, readings: hits)
    found = find_bank(run, 1, 1)
    assert (found.row, found.head.layer, found.head.head) == ("the word after", 0, 0)


def test_shuffling_moves_what_stands_before_bank_and_nothing_else(run: LoadedRun):
    [_, sentence] = bank_sentences(HELD_OUT[0])
    before = read(run, sentence)
    assert before is not None
    after = before.shuffled(random.Random(0))
    bank = before.places[sentence.bank][0]
    assert after.ids != before.ids
    assert sorted(after.ids) == sorted(before.ids)
    assert (after.ids[0], after.ids[bank:]) == (before.ids[0], before.ids[bank:])
    assert after.rows == before.rows
    spelled = [[one.ids[place] for word in one.places for place in word] for one in (before, after)]
    assert spelled[0] == spelled[1], "each word still knows its tokens"


def test_a_context_too_short_for_a_story_is_refused(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="its context of 32 tokens is too short for one; name a run of the recipe"):
        find_bank(load_run(trained("decoder")))


def test_a_run_that_reads_two_texts_is_refused(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="this encoder-decoder reads two"):
        find_bank(load_run(trained("encoder-decoder")))
