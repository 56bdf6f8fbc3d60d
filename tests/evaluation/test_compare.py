"""Two runs on the same documents."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.runs import tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.evaluation.evaluate import compared, require_comparable
from tfcli.evaluation.measure import Measured, measure
from tfcli.pipeline.datasets import data_to_compare, dataset_for_evaluation, dataset_of_run, notes_on_text
from tfcli.records.evaluation import Comparison, Difference, Scores
from tfcli.runs.load import LoadedRun, load_run


def nothing(event: object) -> None:
    """Receives what nobody looks at."""


def own(run: LoadedRun) -> Measured:
    return measure(run, dataset_of_run(run.directory, run.recipe, nothing))


def differences(scores: Scores) -> dict[str, Difference]:
    assert isinstance(scores.comparison, Comparison)
    return {one.score: one for one in scores.comparison.differences}


def noisy(run: LoadedRun, amount: float) -> LoadedRun:
    """The same model, worse."""
    worse = load_run(run.directory.path)
    with torch.no_grad():
        for number, parameter in enumerate(worse.model.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter.add_(amount * noise)
    return worse


@pytest.fixture(scope="module")
def other_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of the same text as the tiny one, in pairs of bytes."""
    out = tmp_path_factory.mktemp("bpe") / "run"
    train_tiny(tiny_recipe("decoder", {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}}), out)
    return out


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_a_run_and_itself_are_equal(trained: Callable[[str], Path], architecture: str):
    measured = own(load_run(trained(architecture)))
    found = differences(compared(measured, measured))
    expected = {
        "decoder": {"loss", "accuracy", "bits_per_byte", "bits_per_character"},
        "encoder": {"loss", "accuracy"},
        "encoder-decoder": {"loss", "accuracy", "bits_per_byte", "bits_per_character", "bleu", "chrf", "exact_match"},
    }
    assert found.keys() == expected[architecture]
    for one in found.values():
        assert (one.difference, one.interval, one.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_a_worse_model_is_found_out_and_pairing_makes_it_sure(trained: Callable[[str], Path]):
    """The interval of the difference is narrower than those of the two losses: documents that are hard for one are
    hard for the other."""
    run = load_run(trained("decoder"))
    first, second = own(run), own(noisy(run, 0.05))
    scores = compared(first, second)
    loss = differences(scores)["loss"]
    assert loss.difference == pytest.approx(second.sums.total.loss - first.sums.total.loss)
    assert loss.difference > 0
    assert loss.p_value is not None and loss.interval is not None and scores.intervals.loss is not None
    assert loss.p_value < 0.01
    assert loss.interval[0] > 0
    assert loss.interval[1] - loss.interval[0] < scores.intervals.loss[1] - scores.intervals.loss[0]
    assert scores.loss == first.sums.total.loss
    assert scores.comparison is not None
    assert scores.comparison.scores.loss == second.sums.total.loss


def test_the_interval_is_that_of_the_paired_differences(trained: Callable[[str], Path]):
    """Bits of each unit of the text, resampled here one by one: the same middle and about the same width."""
    run = load_run(trained("decoder"))
    first, second = own(run), own(noisy(run, 0.05))
    assert first.extent is not None
    bits, size = (
        np.bincount(first.cells.unit, column)
        for column in ((second.sums.nats - first.sums.nats) / math.log(2), first.extent.bytes)
    )
    draw = np.random.default_rng(9)
    picks = [draw.integers(len(bits), size=len(bits)) for _ in range(2000)]
    values = [bits[pick].sum() / size[pick].sum() for pick in picks]
    found = differences(compared(first, second))["bits_per_byte"].interval
    assert found == pytest.approx(tuple(np.quantile(values, (0.025, 0.975))), rel=0.15)


def test_other_tokenizers_are_compared_by_bits_of_the_same_text(trained: Callable[[str], Path], other_tokenizer: Path):
    """The run's own validation part, written anew by the other's tokenizer."""
    run, other = load_run(trained("decoder")), load_run(other_tokenizer)
    require_comparable(run, other)
    first = own(run)
    again = data_to_compare(run, other, first.data, (), nothing)
    assert again.record().validation.bytes == first.data.record().validation.bytes
    texts = [other.tokenizer.decode(again.text("validation").padded(*place, 0)[0]) for place in documents(again)]
    ours = [run.tokenizer.decode(first.data.text("validation").padded(*place, 0)[0]) for place in documents(first.data)]
    known = [run.tokenizer.roles.unk not in run.tokenizer.encode(text) for text in texts]
    assert sum(known) > len(known) / 2 and [*compress(texts, known)] == [*compress(ours, known)]
    scores = compared(first, measure(other, again))
    assert differences(scores).keys() == {"bits_per_byte", "bits_per_character"}
    assert scores.comparison is not None
    assert "tokenizers differ" in scores.comparison.notes[0]


def documents(data: object) -> list[tuple[np.ndarray, np.ndarray]]:
    offsets = data.text("validation").offsets  # type: ignore[attr-defined]
    return [(offsets[n : n + 1], np.diff(offsets)[n : n + 1]) for n in range(len(offsets) - 1)]


def test_what_cannot_be_compared_is_refused(trained: Callable[[str], Path], tmp_path: Path):
    decoder, encoder = load_run(trained("decoder")), load_run(trained("encoder"))
    with pytest.raises(UsageError, match=r"was trained for mlm and .* for clm"):
        require_comparable(decoder, encoder)
    roles = replace(encoder.config.roles, source_start=(1,))
    foreign = replace(encoder, tokenizer=encoder.tokenizer.with_roles(roles))
    with pytest.raises(UsageError, match="different tokenizers"):
        require_comparable(encoder, foreign)
    (tmp_path / "text.txt").write_text("the cat sat on the mat")
    elsewhere = measure(decoder, dataset_for_evaluation(decoder, (str(tmp_path / "text.txt"),), nothing))
    with pytest.raises(UsageError, match="which is other text"):
        compared(own(decoder), elsewhere)


def test_the_second_run_is_asked_the_same(trained: Callable[[str], Path]):
    """The first one's references, and the first one's share of masked tokens."""
    run = load_run(trained("encoder-decoder"))
    first = own(run)
    assert first.translated is not None
    other = replace(first, translated=replace(first.translated, references=["x"] * len(first.cells)))
    again = measure(run, first.data, like=other)
    assert again.translated is not None
    assert again.translated.references == ["x"] * len(first.cells)
    encoder = load_run(trained("encoder"))
    often = replace(encoder, recipe=replace(encoder.recipe, train=replace(encoder.recipe.train, mask_probability=0.5)))
    masked = own(encoder)
    assert measure(often, masked.data, like=masked).sums.tokens.sum() == masked.sums.tokens.sum()
    assert measure(often, masked.data).sums.tokens.sum() > 2 * masked.sums.tokens.sum()


def test_few_documents_of_other_tokenizers_have_no_p_value(
    trained: Callable[[str], Path], other_tokenizer: Path, tmp_path: Path
):
    """One text, cut into stretches of tokens, which are other stretches of text for each; said in a note."""
    run, other = load_run(trained("decoder")), load_run(other_tokenizer)
    source = (str(tmp_path / "text.txt"),)
    Path(source[0]).write_text("the cat sat on the mat. " * 60)
    data = dataset_for_evaluation(run, source, nothing)
    scores = compared(measure(run, data), measure(other, data_to_compare(run, other, data, source, nothing)))
    bits = differences(scores)["bits_per_byte"]
    assert (bits.interval, bits.p_value) == (None, None)
    assert scores.intervals.bits_per_byte is not None
    assert scores.comparison is not None
    assert "no p-value" in scores.comparison.notes[-1]


def test_stretches_of_two_tokenizers_are_not_paired_though_they_are_as_many(
    trained: Callable[[str], Path], tmp_path: Path
):
    """The same run with another frame round its texts stands for a tokenizer whose tokens are others."""
    run = load_run(trained("decoder"))
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 60)
    first = measure(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), nothing))
    assert first.cells.kind == "stretches"
    assert differences(compared(first, first))["bits_per_byte"].p_value == 1.0
    roles = replace(run.config.roles, source_start=(1,))
    second = replace(first, run=replace(run, tokenizer=run.tokenizer.with_roles(roles)))
    scores = compared(first, second)
    bits = differences(scores)["bits_per_byte"]
    assert (bits.difference, bits.interval, bits.p_value) == (0.0, None, None)
    assert scores.comparison is not None
    assert "no p-value" in scores.comparison.notes[-1]


def test_text_that_the_other_may_have_been_trained_on_is_told(trained: Callable[[str], Path], other_tokenizer: Path):
    run, other = load_run(trained("decoder")), load_run(other_tokenizer)
    assert notes_on_text(run, other, ()) == ()
    data = replace(other.recipe.data, validation_fraction=0.2)
    other = replace(other, recipe=replace(other.recipe, data=data))
    assert "may know these documents" in notes_on_text(run, other, ())[0]
    assert notes_on_text(run, other, ("a.txt",)) == ()
