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
from tfcli.interop import Exportable
from tfcli.records.runs import TrainingFinished
from tfcli.runs.card import run_card

ELSEWHERE = Exportable("T5", ("transformers", "CTranslate2"), None)


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
    assert "`tfcli train --resume .`" in run_card(recipe, finished("interrupted", "/somewhere/run 1"), ELSEWHERE)
    assert "/somewhere" not in run_card(recipe, finished("interrupted", "/somewhere/run 1"), ELSEWHERE)


def test_a_bar_in_a_file_name_does_not_divide_a_cell() -> None:
    recipe = tiny_recipe("decoder")
    odd = replace(recipe, data=replace(recipe.data, source=("a|b.txt", "c\nd.txt")))
    rows = [line for line in run_card(odd, finished("done", "r"), ELSEWHERE).splitlines() if line.startswith("|")]
    assert "| text | a\\|b.txt, c d.txt |" in rows
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_what_a_file_or_a_recipe_is_called_stays_text() -> None:
    """Neither HTML nor Markdown; and whoever is given the run does not read where its text lay."""
    recipe = tiny_recipe("decoder")
    odd = replace(
        recipe,
        description="<script>alert(1)</script> *best* [run](http://host)",
        data=replace(recipe.data, source=("/home/someone/<img src=x onerror=alert(1)>.txt", "/home/someone/a&lt;.txt")),
    )
    page = run_card(odd, finished("done", "r"), ELSEWHERE)
    assert "\\<script\\>alert(1)\\</script\\> \\*best\\* \\[run\\](http://host)" in page
    assert "| text | \\<img src=x onerror=alert(1)\\>.txt, a\\&lt;.txt |" in page
    assert "/home" not in page


def test_pairs_and_built_in_texts_keep_their_names() -> None:
    recipe = tiny_recipe("encoder-decoder")
    pairs = replace(recipe, data=replace(recipe.data, source="/home/a/train.pt,/home/a/train.en"))
    assert "| text | train.pt,train.en |" in run_card(pairs, finished("done", "r"), ELSEWHERE)
    assert "| exports as | T5 (transformers, CTranslate2) |" in run_card(pairs, finished("done", "r"), ELSEWHERE)
    hub = replace(recipe, data=replace(recipe.data, source="hf:owner/name:de@train"))
    assert "| text | hf:owner/name:de@train |" in run_card(hub, finished("done", "r"), ELSEWHERE)
