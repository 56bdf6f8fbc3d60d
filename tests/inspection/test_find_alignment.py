"""The measuring of alignments, on weights that are right or wrong by construction."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tfcli.corpora.pt_en import PtEnPair, pairs
from tfcli.errors import UsageError
from tfcli.inspection.heads import find as module
from tfcli.inspection.heads.find import find_alignment
from tfcli.inspection.heads.statistics import WordWeights, spelled
from tfcli.inspection.passes import Inputs
from tfcli.runs.load import LoadedRun, load_run

Head = tuple[int, int]


@pytest.fixture(scope="module")
def run(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("encoder-decoder"))


@pytest.fixture
def aligned(run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[PtEnPair, Head], bool], int], None]:
    """Give the run's heads weights: where `knows` says so, all of a row is on a right word, else on the last token.

    `shift` moves the rows: 0 is the row that predicts a word.
    """
    known: dict[tuple[int, ...], PtEnPair] = {}
    words = module._words

    def remember(run: LoadedRun, pair: PtEnPair) -> list[module._Word]:
        known[tuple(spelled(run.tokenizer, pair.target).ids)] = pair
        return words(run, pair)

    def give(knows: Callable[[PtEnPair, Head], bool], shift: int = 0) -> None:
        def constructed(run: LoadedRun, inputs: Inputs, kind: str) -> WordWeights:
            assert kind == "cross" and inputs.encoder is not None and inputs.decoder is not None
            pair = known[inputs.decoder[1:]]
            source, target = spelled(run.tokenizer, pair.source), spelled(run.tokenizer, pair.target)
            weights = np.zeros((2, 2, len(inputs.decoder), len(inputs.encoder)), np.float32)
            weights[..., -1] = 1
            for layer, head in np.ndindex(2, 2):
                for source_word, target_word in pair.alignment if knows(pair, (layer, head)) else ():
                    row = target.places[target_word][0] + shift
                    weights[layer, head, row] = 0
                    weights[layer, head, row, source.places[source_word][0]] = 1
            return weights

        monkeypatch.setattr(module.measure, "kind_weights", constructed)

    monkeypatch.setattr(module, "_words", remember)
    return give


def test_a_head_that_knows_the_grammar_is_chosen_and_always_right(run: LoadedRun, aligned: Callable[..., None]):
    aligned(lambda pair, head: head == (1, 0))
    found = find_alignment(run, 20, 20)
    assert (found.head.layer, found.head.head) == (1, 0)
    assert found.held_out.value == found.training.value == found.reordered.value == 1.0
    assert 0 < found.chance < 0.5 < 0.9 < found.mean_of_heads.value
    assert found.reordered.count < found.held_out.count
    assert all(one.hit for one in found.examples)


def test_the_row_that_reads_a_word_is_not_the_one_that_predicts_it(run: LoadedRun, aligned: Callable[..., None]):
    """Weights one row late: what stands on a word's own row counts for the word after it."""
    aligned(lambda pair, head: head == (1, 0), shift=1)
    assert find_alignment(run, 20, 20).held_out.value < 0.3


def test_a_head_is_chosen_on_training_pairs_alone(run: LoadedRun, aligned: Callable[..., None]):
    """(0, 1) knows training pairs, (1, 1) the held-out ones: the first is chosen, and found to know nothing else."""
    aligned(lambda pair, head: head == ((1, 1) if pair.validation else (0, 1)))
    found = find_alignment(run, 20, 20)
    assert (found.head.layer, found.head.head) == (0, 1)
    assert found.training.value == 1.0
    assert found.held_out.value < 0.3


def test_reordered_words_are_those_that_cross_another(run: LoadedRun):
    """Em(0) Dezembro(1) Lucas(2) … became … Lucas(0) … in(5) December(6): all of them cross; without the move, none."""
    stream: Iterator[PtEnPair] = pairs()
    moved = [[word.reordered for word in module._words(run, pair)] for pair, _ in zip(stream, range(4), strict=False)]
    assert moved[2][:7] == [False] * 7
    assert moved[3][:7] == [True] * 7


def test_other_runs_are_refused(trained: Callable[[str], Path], run: LoadedRun):
    with pytest.raises(UsageError, match="this decoder has one; name a run of the recipe pt-en"):
        find_alignment(load_run(trained("decoder")))
