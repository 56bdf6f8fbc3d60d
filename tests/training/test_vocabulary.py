"""A run begun with a longer vocabulary: old rows bit-equal, new ones the means of what their tokens replace."""

from pathlib import Path

import pytest
import torch

from tests.support.runs import resume_tiny, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.pipeline.training import begin_run
from tfcli.recipe.data import TokenizerSection
from tfcli.records.dataset import VocabularyExtension
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run, read_run
from tfcli.runs.weights import load_tensors, model_tensors
from tfcli.tokenization.extend import extend_tokenizer
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

SHAPES = {
    "tied": ("decoder", {"tie_embeddings": True}),
    "untied": ("decoder", {"tie_embeddings": False}),
    "transform": ("encoder", {"head": "transform", "head_bias": True}),
    "pairs": ("encoder-decoder", {}),
}
TEXT = "Tom swam across the river to the old bank. Anna saw the bank of the river. " * 40


def old_run(path: Path, kind: str) -> Path:
    architecture, model = SHAPES[kind]
    tokenizer = {"algorithm": "bpe", "vocab_size": 290}
    train_tiny(tiny_recipe(architecture, {"model": model, "tokenizer": tokenizer}), path)
    return path


def extended(run: Path, file: Path) -> Tokenizer:
    old = read_run(run).tokenizer
    section = TokenizerSection(vocab_size=old.vocab_size + 30)
    new, _ = extend_tokenizer(old, lambda: iter([TEXT]), section)
    new.save(file)
    return new


@pytest.mark.parametrize("kind", SHAPES)
def test_new_rows_are_means_and_old_ones_bit_equal(tmp_path: Path, kind: str) -> None:
    old = load_run(old_run(tmp_path / "old", kind))
    new = extended(tmp_path / "old", tmp_path / "new.json")
    architecture, model = SHAPES[kind]
    path = {"tokenizer": {"path": str(tmp_path / "new.json")}, "train": {"steps": 4}}
    _, events = train_tiny(tiny_recipe(architecture, {"model": model}, path), tmp_path / "new", init=tmp_path / "old")
    [told] = events.of(VocabularyExtension)
    before, after = old.tokenizer.vocab_size, new.vocab_size
    assert (told.rows_before, told.rows, told.tokens) == (before, after, after - before) and after > before + 10
    assert told.loss_before != told.loss_after
    wider = 0
    first = _first_weights(tmp_path, architecture, model)
    for name, tensor in model_tensors(old.model).items():
        own = first[name]
        if own.shape == tensor.shape:
            assert torch.equal(own, tensor), name
            continue
        wider += 1
        assert torch.equal(own[: len(tensor)], tensor) and len(own) == new.vocab_size
        for token_id in range(old.tokenizer.vocab_size, new.vocab_size):
            [label] = new.labels([token_id])
            assert torch.allclose(own[token_id], tensor[old.tokenizer.encode(label)].mean(0)), label
    assert wider == {"tied": 1, "untied": 2, "transform": 2}.get(kind, wider) and wider > 0
    finished, _ = resume_tiny(tmp_path / "new")
    assert finished.step == 4 and load_run(tmp_path / "new").tokenizer.fingerprint == new.fingerprint


def _first_weights(folder: Path, architecture: str, model: dict[str, object]) -> dict[str, torch.Tensor]:
    """Those of a run that is begun by several processes, which none has gone on with."""
    path = {"tokenizer": {"path": str(folder / "new.json")}}
    recipe = tiny_recipe(architecture, {"model": model}, path)
    run = begin_run(recipe, folder / "begun", lambda event: None, 2, folder / "old")
    return load_tensors(RunDirectory(run).weights)[0]


def test_a_tokenizer_that_is_no_extension_is_refused(tmp_path: Path) -> None:
    old_run(tmp_path / "old", "tied")
    extended(tmp_path / "old", tmp_path / "new.json")
    path = {"tokenizer": {"path": str(tmp_path / "new.json")}}
    for settings, words in (
        ({"model": {"vocab_size": 295}} | path, "leave model.vocab_size out"),
        ({"tokenizer": {"path": str(other(tmp_path))}}, "nor extends it"),
        ({"model": {"d_model": 32}} | path, "is another model"),
    ):
        with pytest.raises(UsageError, match=words):
            train_tiny(tiny_recipe("decoder", settings), tmp_path / "new", init=tmp_path / "old")
        assert not (tmp_path / "new").exists()


def other(folder: Path) -> Path:
    tokenizer, _ = train_tokenizer(lambda: iter([TEXT]), TokenizerSection(vocab_size=300))
    tokenizer.save(folder / "other.json")
    return folder / "other.json"
