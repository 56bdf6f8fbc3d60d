"""A head at every checkpoint of a run."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.runs import tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.inspection.attention.choice import AttentionChoice, focused
from tfcli.inspection.attention.compute import attention, evolution
from tfcli.inspection.passes import read_text
from tfcli.runs.load import load_run


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of 12 steps with a checkpoint every fourth."""
    out = tmp_path_factory.mktemp("evolution") / "run"
    train_tiny(tiny_recipe("decoder", {"train": {"keep_checkpoints": 3}}), out)
    return out


def test_every_checkpoint_shows_its_own_weights(kept: Path):
    run = load_run(kept)
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice(layer=0, head=1))
    assert [step.step for step in found.steps] == [4, 8, 12]
    for index, step in enumerate(found.steps):
        [record] = attention(load_run(kept, str(step.step)), "a cat")
        assert np.array_equal(found.weights[index], record.weights[0, 1])
    assert not np.array_equal(found.weights[0], found.weights[2]), "training moved it"


def test_its_figures_are_those_of_its_weights(kept: Path):
    run = load_run(kept)
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice(layer=0, head=0))
    rows = found.weights[1].astype(float)
    nats = [-sum(w * np.log(w) for w in row if w > 0) for row in rows]
    assert found.steps[1].entropy == pytest.approx(sum(nats) / len(nats), abs=1e-5)
    step = found.steps[1]
    # <s> and "a", the first word, say nothing of the text.
    candidates = {(q, k): rows[q, k] for q in range(1, 6) for k in range(2, 6) if abs(q - k) > 1}
    assert (step.row, step.column) == max(candidates, key=lambda cell: candidates[cell])
    assert step.strongest == pytest.approx(max(candidates.values()))


def test_the_telling_head_is_that_of_the_loaded_weights(kept: Path):
    run = load_run(kept)
    [record] = attention(run, "a cat")
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice())
    assert (found.layer, found.head) == focused(record).focus


def test_a_run_that_keeps_one_checkpoint_is_told_how_to_keep_more(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 2}}), tmp_path / "run")
    run = load_run(tmp_path / "run")
    with pytest.raises(UsageError, match=r"keeps one checkpoint, of step 2.*--set train.keep_checkpoints=8"):
        evolution(run, read_text(run, "a"), "decoder_self", AttentionChoice())
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        folder.rename(tmp_path / folder.name)
    with pytest.raises(UsageError, match="keeps no checkpoints"):
        evolution(run, read_text(run, "a"), "decoder_self", AttentionChoice())
