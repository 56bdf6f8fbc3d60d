"""Totals by hand, and against PyTorch's own cross-entropy."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.models.small import ARCHITECTURES, model
from tfcli.data.batch import IGNORED, Batch
from tfcli.evaluation.measure import Totals, sum_cells, total_loss
from tfcli.evaluation.windows import Cells, Placed
from tfcli.models.objective import AT_A_TIME, targets_of
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

CPU = torch.device("cpu")


class Table(Transformer):
    """Predicts from the last token alone, by a table of probabilities: row i follows token i."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        super().__init__(ModelSection(vocab_size=len(probabilities)))
        self.table = torch.tensor(probabilities).log()
        self.modes: list[bool] = []

    def hidden(self, input_ids: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        self.modes.append(self.training)
        return F.one_hot(input_ids, len(self.table)).float()

    def head(self, hidden: Tensor) -> Tensor:  # type: ignore[override]
        return hidden @ self.table


TABLE = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]]


def batch(inputs: list[list[int]], labels: list[list[int]]) -> Batch:
    return Batch(np.array(inputs), np.array(labels))


def pairs(number: int) -> Cells:
    return Cells(None, np.arange(number), np.arange(number), "pairs")


def test_a_total_by_hand():
    """After 0 comes 0 (½, the likeliest) and 1 (¼); after 1 comes 1 (0.8, the likeliest); after 2 comes 0
    (¼). One label is ignored. Nats: ln 2 + ln 4 + ln 1.25 + ln 4 = ln 40, over 4 tokens, of which 2 were
    right."""
    batches = [batch([[0, 0], [1, 1]], [[0, 1], [1, IGNORED]]), batch([[2]], [[0]])]
    totals = total_loss(Table(TABLE), batches, CPU)
    assert totals.nats == pytest.approx(math.log(40), rel=1e-6)
    assert (totals.tokens, totals.correct) == (4, 2)
    assert totals.loss == pytest.approx(math.log(40) / 4, rel=1e-6)
    assert totals.accuracy == 0.5
    assert totals.perplexity == pytest.approx(40**0.25, rel=1e-6)


def test_the_mean_is_over_tokens_and_not_over_batches():
    """Three tokens of ln 2 and one of ln 4, in batches of 3 and 1: 5/4 ln 2, where the mean of the
    batches' means would be 3/2 ln 2."""
    batches = [batch([[0, 0, 0]], [[0, 0, 0]]), batch([[0]], [[1]])]
    assert total_loss(Table(TABLE), batches, CPU).loss == pytest.approx(1.25 * math.log(2), rel=1e-6)


def test_a_perplexity_by_hand():
    """8 tokens of ½ each."""
    assert Totals(nats=8 * math.log(2), tokens=8, correct=0).perplexity == pytest.approx(2.0)


def test_a_perplexity_beyond_all_numbers_is_infinite():
    assert Totals(nats=800.0, tokens=1, correct=0).perplexity == math.inf
    assert Totals(nats=650.0, tokens=1, correct=0).perplexity == pytest.approx(math.exp(650))


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_scored_in_evaluation_mode_and_given_back_as_it_was(training: bool):
    table = Table(TABLE).train(training)
    total_loss(table, [batch([[0]], [[0]])], CPU)
    assert table.modes == [False]
    assert table.training is training


def interrupted(model: Transformer) -> Iterator[Any]:
    """Batches at whose beginning Ctrl-C comes."""
    assert not model.training
    yield from ()
    raise KeyboardInterrupt


def test_an_interrupted_evaluation_gives_the_model_back_in_training_mode():
    table = Table(TABLE).train()
    with pytest.raises(KeyboardInterrupt):
        total_loss(table, interrupted(table), CPU)
    assert table.training
    with pytest.raises(KeyboardInterrupt):
        sum_cells(table, interrupted(table), pairs(1), CPU)
    assert table.training


def test_dropout_plays_no_part():
    network = model("decoder", dropout=0.5).float().train()
    scored = [total_loss(network, [one_batch("decoder", 0.0)], CPU).nats for _ in range(2)]
    assert scored[0] == scored[1]


def one_batch(architecture: str, ignored: float) -> Batch:
    """Four rows, the last two shorter, with a share of the labels left out."""
    draw = np.random.default_rng(4)
    ids, labels, decoder = (draw.integers(0, 11, (4, 6)) for _ in range(3))
    labels[draw.random(labels.shape) < ignored] = IGNORED
    padding = np.ones((4, 6), dtype=bool)
    padding[2:, 4:] = False
    pairs = {"decoder_input_ids": decoder} if architecture == "encoder-decoder" else {}
    return Batch(ids, labels, padding, **pairs)


@pytest.mark.parametrize("ignored", [0.0, 0.85], ids=["all labelled", "one in seven labelled"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_totals_are_pytorch_s_own(architecture: str, ignored: float):
    """Against the whole forward, padding included; with few labels the head is applied to those alone."""
    network, whole = model(architecture), one_batch(architecture, ignored)
    inputs = [torch.as_tensor(whole.input_ids)]
    if whole.decoder_input_ids is not None:
        inputs.append(torch.as_tensor(whole.decoder_input_ids))
    with torch.no_grad():
        logits = network(*inputs, torch.as_tensor(whole.padding_mask)).flatten(0, 1).float()
    labels = torch.as_tensor(whole.labels).flatten()
    totals = total_loss(network, [whole], CPU)
    assert totals.nats == pytest.approx(F.cross_entropy(logits, labels, reduction="sum").item(), rel=1e-5)
    assert totals.tokens == int((labels != IGNORED).sum())
    assert totals.correct == int((logits.argmax(-1) == labels).sum())
    rows = sum(len(target.logits) for target in targets_of(network, whole, CPU))
    assert rows == (24 if ignored == 0.0 else totals.tokens)


def test_splitting_a_set_into_batches_changes_nothing():
    network, whole = model("decoder"), one_batch("decoder", 0.3)
    assert whole.padding_mask is not None
    rows = [Batch(whole.input_ids[n : n + 1], whole.labels[n : n + 1], whole.padding_mask[n : n + 1]) for n in range(4)]
    once, by_row = total_loss(network, [whole], CPU), total_loss(network, rows, CPU)
    assert by_row.nats == pytest.approx(once.nats, rel=1e-6)
    assert (by_row.tokens, by_row.correct) == (once.tokens, once.correct)


def test_the_logits_of_a_long_text_are_never_held_all_at_once():
    """700 tokens by 256, and the sums are those of all at once, in float64 here."""
    network, draw = model("decoder"), np.random.default_rng(1)
    long = Batch(draw.integers(0, 11, (70, 10)), draw.integers(0, 11, (70, 10)))
    places, held = np.arange(700).reshape(70, 10), list[int]()
    network.head.register_forward_hook(lambda head, inputs, logits: held.append(len(logits)))
    totals, cells = total_loss(network, [long], CPU), sum_cells(network, [Placed(long, places)], pairs(700), CPU)
    assert held == 2 * [256, 256, 188] and AT_A_TIME["cpu"] == 256
    with torch.no_grad():
        logits = network.hidden(torch.as_tensor(long.input_ids)).flatten(0, 1).double() @ network.head.weight.double().T
    labels = torch.as_tensor(long.labels).flatten()
    of_each = F.cross_entropy(logits, labels, reduction="none").numpy()
    assert totals.nats == pytest.approx(of_each.sum(), rel=1e-6)
    np.testing.assert_allclose(cells.nats, of_each, rtol=1e-5)
    assert totals.correct == cells.correct.sum() == int((logits.argmax(-1) == labels).sum())
