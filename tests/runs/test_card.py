"""The page a run leaves for whoever finds it: its commands work where the folder lies, its table stays a table."""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.cli.commands import tfcli
from tests.support.runs import tiny_recipe
from tfcli.records.training import TrainingFinished
from tfcli.runs.card import run_card


def finished(reason: Literal["done", "interrupted"], run: str) -> TrainingFinished:
    return TrainingFinished(reason, 12, 3456, 1.0, 1.25, 8, run)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_its_commands_work_inside_the_folder_after_it_was_moved(
    trained: Callable[[str], Path], architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a copy; with $signs"
    shutil.copytree(trained(architecture), folder)
    monkeypatch.chdir(folder)
    page = (folder / "README.md").read_text()
    assert str(trained(architecture)) not in page
    commands = [shlex.split(line)[1:] for line in page.split("```")[1].splitlines() if line.startswith("tfcli ")]
    assert [words[0] for words in commands] == ["generate", "inspect", "evaluate"]
    for words in commands:
        done = tfcli(*words)
        assert done.exit_code == 0, done.stderr


def test_an_interrupted_run_says_how_to_go_on() -> None:
    recipe = tiny_recipe("decoder")
    assert "`tfcli train --resume .`" in run_card(recipe, finished("interrupted", "/somewhere/run 1"))
    assert "/somewhere" not in run_card(recipe, finished("interrupted", "/somewhere/run 1"))


def test_a_bar_in_a_file_name_does_not_divide_a_cell() -> None:
    recipe = tiny_recipe("decoder")
    odd = replace(recipe, data=replace(recipe.data, source=("a|b.txt", "c\nd.txt")))
    rows = [line for line in run_card(odd, finished("done", "r")).splitlines() if line.startswith("|")]
    assert "| text | a\\|b.txt, c d.txt |" in rows
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
