"""What can be known before the work is refused before it: a device that is not there, a folder that is not there."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from tests.cli.commands import SHRUNK, snapshot, tfcli
from tests.support.app import app

FILES = ("--svg", "--html", "--csv", "--npz", "--latex", "--answers", "--outputs", "--references", "--out")
# What --out names is a folder that the command makes.
MAKE_FOLDERS = ("run", "prepare", "train", "import", "export")


def commands() -> Iterator[tuple[list[str], Any]]:
    """Every command with its words."""

    def walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
        if not hasattr(command, "commands"):
            yield path, command
            return
        for name, inner in command.commands.items():
            yield from walk(inner, [*path, name])

    return walk(typer.main.get_command(app), [])


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command that take a value, by name."""
    named = [parameter for parameter in command.params if parameter.opts[0].startswith("-")]
    return {parameter.opts[0]: parameter for parameter in named if not parameter.is_flag}


def least(path: list[str], command: Any, run: Path, without: str) -> list[str]:
    """A command line with no more than what the command needs, but for one option."""
    line = list(path)
    for parameter in command.params:
        name = parameter.opts[0]
        if not parameter.required or name == without:
            continue
        value = {"--minutes": "1", "--out": "new.file", "--for": "position"}.get(name, "x")
        if (parameter.metavar or "").startswith("RUN"):
            value = str(run)
        line += [name, value] if name.startswith("-") else [value]
    return line


OUTPUTS = [
    (" ".join(path), option)
    for path, command in commands()
    for option in options_of(command)
    if option in FILES and not (path[0] in MAKE_FOLDERS and option == "--out")
]


@pytest.mark.parametrize(("name", "option"), OUTPUTS)
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_the_work(
    name: str, option: str, trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    command = next(command for path, command in commands() if " ".join(path) == name)
    line = least(name.split(), command, trained("decoder"), option)
    if option == "--answers":
        line += ["--hide", "weights"]
    result = tfcli(*line, option, "no folder/a.file")
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert result.stderr == (
        f"tfcli: {option} 'no folder/a.file': there is no folder 'no folder'; make it: `mkdir -p 'no folder'`.\n"
    )
    assert snapshot(tmp_path) == {}


def test_there_are_outputs_to_be_tested():
    assert len(OUTPUTS) >= 70
    assert {"embed", "evaluate", "plan", "tokenize train", "runs show"} <= {name for name, _ in OUTPUTS}


@pytest.fixture
def decoder(trained: Callable[[str], Path]) -> Path:
    """Made before a test gets a cache of its own."""
    return trained("decoder")


@pytest.fixture
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with neither CUDA nor MPS."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


WITH_DEVICE = [" ".join(path) for path, command in commands() if "--device" in options_of(command)]


@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("name", WITH_DEVICE)
def test_a_device_that_is_not_there_is_refused_before_the_work(
    name: str,
    device: str,
    decoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_cache: Path,
    no_accelerator: None,
):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    command = next(command for path, command in commands() if " ".join(path) == name)
    line = least(name.split(), command, decoder, "")
    if name == "run":
        line = ["run", "quickstart"]
    result = tfcli(*line, "--device", device)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert result.stderr == f"tfcli: There is no {device} device on this machine; use --device auto.\n"
    assert snapshot(folder) == {} and not own_cache.exists()


@pytest.mark.parametrize("name", WITH_DEVICE)
def test_a_numbered_gpu_is_answered_with_how_to_choose_one(name: str):
    command = next(command for path, command in commands() if " ".join(path) == name)
    line = least(name.split(), command, Path("x"), "")
    result = tfcli(*line, "--device", "cuda:1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`CUDA_VISIBLE_DEVICES=1 tfcli {name} " in result.stderr
    assert result.stderr.endswith("--device cuda`.\n")


@pytest.mark.parametrize(
    "line",
    [
        ["train", *SHRUNK, "--set", "train.device=cuda"],
        ["run", "quickstart", "--set", "train.device=cuda"],
        ["plan", "--minutes", "1", "--set", "train.device=cuda"],
        ["bench", "train", "--set", "train.device=cuda"],
        ["train", "--recipe", "gpu.toml"],
        ["run", "gpu.toml"],
    ],
)
def test_a_device_of_a_recipe_or_a_key_is_refused_as_early(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path, no_accelerator: None
):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("gpu.toml").write_text('name = "gpu"\n[train]\ndevice = "cuda"\n')
    result = tfcli(*line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "tfcli: There is no cuda device on this machine; use --device auto.\n"
    assert list(snapshot(folder)) == ["gpu.toml"] and not own_cache.exists()


def test_a_device_that_no_machine_has_is_refused_in_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli("train", "--set", "train.device=cuda:1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith('tfcli: train.device = "cuda:1" is not known; choose ')


def test_a_resume_on_a_device_that_is_gone_is_refused_before_its_text_is_made_again(
    decoder: Path, tmp_path: Path, own_cache: Path, no_accelerator: None
):
    run = tmp_path / "run"
    shutil.copytree(decoder, run)
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(recipe.replace('device = "cpu"', 'device = "cuda"'))
    before = snapshot(run)
    result = tfcli("train", "--resume", run)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "tfcli: There is no cuda device on this machine; use --device auto.\n"
    assert snapshot(run) == before and not own_cache.exists()
