"""Loading a run: everything is checked against everything else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.corpora import contents
from tests.support.runs import same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import read_json, write_json
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.weights import model_tensors


@pytest.fixture
def run(tmp_path: Path, trained: Callable[[str], Path]) -> Path:
    """A copy that may be broken."""
    return shutil.copytree(trained("decoder"), tmp_path / "run")


def refused(run: Path, kind: type[TfcliError]) -> str:
    """The message; and nothing of the run has changed."""
    before = contents(run)
    with pytest.raises(kind) as caught:
        load_run(run)
    assert contents(run) == before
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_a_run_loads_ready_to_use(trained: Callable[[str], Path], architecture: str):
    loaded = load_run(trained(architecture))
    assert loaded.architecture == loaded.recipe.model.architecture == architecture
    assert not loaded.model.training
    assert loaded.config.roles == loaded.tokenizer.roles
    assert same(model_tensors(loaded.model), weights(trained(architecture) / "model.safetensors"))
    assert loaded.config.model.vocab_size == loaded.tokenizer.vocab_size


def test_weights_that_are_gone(run: Path):
    (run / "model.safetensors").unlink()
    message = refused(run, UsageError)
    assert f"There are no weights at {run / 'model.safetensors'}" in message
    assert "train again" in message


def test_weights_that_are_cut(run: Path):
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert f"{file} is truncated" in refused(run, BrokenInputError)


def test_weights_of_another_run_of_the_same_shapes(run: Path, tmp_path: Path):
    """Only the seed differs: names and shapes are the same, and so is the tokenizer."""
    longer = {"model": {"num_layers": 2}, "train": {"seed": 1, "steps": 1}}
    train_tiny(tiny_recipe("decoder", longer), tmp_path / "other")
    shapes = [{n: t.shape for n, t in weights(p / "model.safetensors").items()} for p in (run, tmp_path / "other")]
    assert shapes[0] == shapes[1], "the premise"
    shutil.copy(tmp_path / "other" / "model.safetensors", run / "model.safetensors")
    assert f"{run / 'model.safetensors'} belongs to another run" in refused(run, BrokenInputError)


def test_weights_of_another_architecture(run: Path, trained: Callable[[str], Path]):
    shutil.copy(trained("encoder-decoder") / "model.safetensors", run / "model.safetensors")
    assert "belongs to another run" in refused(run, BrokenInputError)


def test_the_tokenizer_of_another_run(run: Path, trained: Callable[[str], Path]):
    shutil.copy(trained("encoder-decoder") / "tokenizer.json", run / "tokenizer.json")
    message = refused(run, BrokenInputError)
    assert f"{run / 'tokenizer.json'} is not the tokenizer this run was trained with" in message
    assert "restore the run's own tokenizer.json" in message


def test_a_tokenizer_with_one_token_changed(run: Path):
    """Two ids exchanged: the same size, the same tokens, another meaning of every text."""
    state = read_json(run / "tokenizer.json")
    vocabulary = state["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    write_json(run / "tokenizer.json", state)
    assert "is not the tokenizer this run was trained with" in refused(run, BrokenInputError)


def test_a_tokenizer_that_is_written_otherwise_is_the_same(run: Path):
    """The fingerprint is of what it does, not of the bytes of its file."""
    import json

    state = read_json(run / "tokenizer.json")
    (run / "tokenizer.json").write_text(json.dumps(state))
    load_run(run)


def test_a_config_of_another_version(run: Path):
    write_json(run / "config.json", {**read_json(run / "config.json"), "format_version": 1})
    message = refused(run, BrokenInputError)
    assert f"{run / 'config.json'} has format version 1, and this tfcli reads 3 or 2" in message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_file_that_is_gone_or_cut(run: Path, name: str):
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    assert str(run / name) in refused(run, BrokenInputError)
    (run / name).unlink()
    assert str(run / name) in refused(run, UsageError)


def test_a_folder_that_is_no_run(tmp_path: Path):
    assert "it has no recipe.toml" in refused(tmp_path, UsageError)
    with pytest.raises(UsageError, match="There is no run"):
        load_run(tmp_path / "gone")


def test_checkpoints_have_names(run: Path):
    """80 steps, of which the last is kept; the best may be another."""
    last = RunDirectory(run).checkpoint(80) / "model.safetensors"
    for name in ("last", "80", "080"):
        assert same(model_tensors(load_run(run, name).model), weights(last))
    assert same(model_tensors(load_run(run, "best").model), weights(run / "model.safetensors"))


@pytest.mark.parametrize("name", ["40", "0", "-80", "80.0", "newest", "²", ""])
def test_a_checkpoint_that_is_not_kept_is_refused_with_those_that_are(run: Path, name: str):
    with pytest.raises(UsageError) as caught:
        load_run(run, name)
    assert f"keeps no checkpoint {name!r}; choose best, last or 80" in str(caught.value)


def test_a_run_without_checkpoints(run: Path):
    shutil.rmtree(run / "checkpoints")
    for name in ("last", "80"):
        with pytest.raises(UsageError, match="keeps no checkpoints; use --checkpoint best"):
            load_run(run, name)
    load_run(run)


def test_a_run_that_was_interrupted_before_its_first_score_loads(tmp_path: Path):
    train_tiny(tiny_recipe("encoder"), tmp_path / "run", stop=stop_after(1))
    assert load_run(tmp_path / "run").architecture == "encoder"
