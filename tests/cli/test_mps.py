"""On a pretended Mac: what `auto` chooses and says, and runs that were recorded on one."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.cli.commands import tfcli
from tfcli.runs.checkpoint import open_checkpoint, write_state
from tfcli.runs.directory import RunDirectory

NOTE = "--device mps is untried: the CPU is used; name it to try it."


@pytest.fixture
def a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


def recorded_on_a_mac(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder)
    recipe = folder / "recipe.toml"
    text = recipe.read_text()
    assert 'device = "cpu"' in text
    recipe.write_text(text.replace('device = "cpu"', 'device = "mps"'))
    for checkpoint in map(open_checkpoint, RunDirectory(folder).checkpoints().values()):
        assert checkpoint.origin is not None
        sections = checkpoint.origin.recipe
        told = {**sections, "train": {**sections["train"], "device": "mps"}}
        write_state(checkpoint.folder, checkpoint.progress, replace(checkpoint.origin, recipe=told))
    return folder


def test_auto_leaves_mps_aside_and_says_so_once(trained: Callable[[str], Path], a_mac: None):
    done = tfcli("generate", str(trained("decoder")), "Tom", "--max-new-tokens", "2")
    assert done.exit_code == 0
    assert done.stderr.count(NOTE) == 1 and NOTE not in done.stdout
    assert NOTE not in tfcli("generate", str(trained("decoder")), "Tom", "--device", "cpu").stderr
    assert NOTE not in tfcli("generate", str(trained("decoder")), "Tom", "--quiet").stderr


def test_a_run_that_was_recorded_with_mps_is_read_and_resumed(trained: Callable[[str], Path], tmp_path: Path):
    """There; and elsewhere, where another device is named."""
    run = recorded_on_a_mac(trained("decoder"), tmp_path / "run")
    assert tfcli("generate", str(run), "Tom", "--max-new-tokens", "2").exit_code == 0
    longer = ("train", "--resume", str(run), "--set", "train.steps=82")
    refused = tfcli(*longer)
    assert refused.exit_code == 2
    assert "There is no mps device on this machine" in refused.stderr
    assert tfcli(*longer, "--set", "train.device=cpu").exit_code == 0
