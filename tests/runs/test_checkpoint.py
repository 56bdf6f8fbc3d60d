"""A checkpoint's state.json: what is refused before anything of the checkpoint is used, and one way to open one."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfcli
from tfcli.errors import BrokenInputError
from tfcli.files import read_json, write_json
from tfcli.runs.checkpoint import WITHOUT_DIGEST, Origin, Progress, last_checkpoint, open_checkpoint, write_state
from tfcli.runs.directory import RunDirectory

ORIGIN = Origin("a run", "its tokenizer", "its data", {"pad": 0, "source_start": ()}, {"train": {"batch_size": 4}})
PACKAGE = Path(tfcli.__file__).parent


def written(run: Path, step: int = 40, **counters: Any) -> Path:
    folder = RunDirectory(run).checkpoint(step)
    folder.mkdir(parents=True)
    write_state(folder, Progress(step, **counters), ORIGIN)
    return folder


def test_what_is_written_is_read(tmp_path: Path):
    progress = Progress(40, 99, 1.5, 2.25, 30, 1, 2, 50, 0.5, 3, 4, 5, True)
    folder = RunDirectory(tmp_path).checkpoint(40)
    folder.mkdir(parents=True)
    write_state(folder, progress, ORIGIN)
    opened = open_checkpoint(folder)
    assert (opened.folder, opened.progress, opened.step) == (folder, progress, 40)
    assert opened.origin is not None
    assert (opened.origin.run_id, opened.origin.recipe) == (ORIGIN.run_id, ORIGIN.recipe)


def test_one_of_before_is_read_without_what_it_belongs_to(tmp_path: Path):
    folder = written(tmp_path)
    write_json(folder / "state.json", {"format_version": WITHOUT_DIGEST, "step": 40, "finished": True})
    opened = open_checkpoint(folder)
    assert (opened.origin, opened.progress) == (None, Progress(40, finished=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": 41}, "it is of step 41"),
        ({"step": -40}, "step: -40 (Input should be greater than or equal to 0)"),
        ({"step": 10**400}, "step: "),
        ({"step": "40"}, "step: "),
        ({"step": 40.5}, "step: "),
        ({"step": True}, "step: "),
        ({"tokens": -1}, "tokens: "),
        ({"seconds": "long"}, "seconds: "),
        ({"seconds": float("inf")}, "is not finite"),
        ({"pending_loss": float("nan")}, "is not finite"),
        ({"skipped": 41}, "beyond step 40"),
        ({"best_step": 41}, "beyond step 40"),
        ({"best_loss": float("nan")}, "is not finite"),
        ({"best_loss": 0.001}, "its digest is not"),
        ({"seconds": 9.0}, "its digest is not"),
        ({"finished": 1}, "finished: "),
        ({"epoch": 3}, "epoch: "),
        ({"digest": "0" * 16}, "its digest is not"),
        ({"digest": None}, "its digest is not"),
        ({"belongs_to": None}, "its digest is not"),
        ({"belongs_to": {"run_id": "another run"}}, "its digest is not"),
    ],
    ids=str,
)
def test_a_damaged_or_edited_state_is_told(tmp_path: Path, change: dict[str, Any], words: str):
    folder = written(tmp_path)
    write_json(folder / "state.json", {**read_json(folder / "state.json"), **change})
    with pytest.raises(BrokenInputError) as caught:
        open_checkpoint(folder)
    assert f"{folder / 'state.json'} is damaged" in caught.value.problem
    assert words in caught.value.problem
    assert len(caught.value.problem) < len(str(folder)) + 200


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_best_loss_that_is_not_finite_is_refused_in_one_of_before_too(tmp_path: Path, loss: str):
    """No later loss would be less than one that is no number, and the best weights would never be written again."""
    folder = written(tmp_path)
    (folder / "state.json").write_text(f'{{"format_version": 3, "step": 40, "best_loss": {loss}}}')
    with pytest.raises(BrokenInputError, match="a counter is not finite"):
        open_checkpoint(folder)


@pytest.mark.parametrize("text", ["[]", "3", "null", "[" * 100_000, "9" * 5000, '{"format_version": 5}', "{}", ""])
def test_what_is_no_state_is_told(tmp_path: Path, text: str):
    folder = written(tmp_path)
    (folder / "state.json").write_text(text)
    with pytest.raises(BrokenInputError):
        open_checkpoint(folder)


@pytest.mark.parametrize("older_is", ["good", "damaged", "weights alone"])
def test_where_an_older_checkpoint_is_good_the_remedy_names_it(tmp_path: Path, older_is: str):
    older, last = written(tmp_path, 30), written(tmp_path, 40)
    (last / "state.json").write_text("{")
    if older_is == "damaged":
        (older / "state.json").write_text("{")
    if older_is != "weights alone":
        (older / "optimizer.safetensors").touch()
    with pytest.raises(BrokenInputError) as caught:
        last_checkpoint(RunDirectory(tmp_path))
    assert (f"remove {last} to go on from step 30" in caught.value.remedy) is (older_is == "good")


def test_a_checkpoint_has_one_name(tmp_path: Path):
    """Other digits, or more zeros, would be a second name of the same step."""
    for name in ("step-0000040", "step-٠٠٠٠٤٠"):
        written(tmp_path).rename(tmp_path / "checkpoints" / name)
    assert RunDirectory(tmp_path).checkpoints() == {}


def _strings(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _names(tree: ast.AST) -> set[str]:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return used | imported | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(
    ("what", "of", "files"),
    [
        ("state.json", _strings, {"runs/checkpoint.py", "runs/directory.py"}),
        ("safe_open", _names, {"runs/config.py", "runs/weights.py"}),
        ("HuggingFaceStorageReader", _names, {"runs/weights.py"}),
        ("load_sharded", _names, {"runs/weights.py"}),
    ],
)
def test_checkpoints_are_opened_in_one_way(what: str, of: Callable[[ast.AST], set[str]], files: set[str]):
    """Read in the code: whatever wants a checkpoint's counters or tensors asks the files that check them."""
    using = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if what in of(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert using == files


def test_a_state_is_readable_by_anyone(tmp_path: Path):
    values = json.loads((written(tmp_path) / "state.json").read_text())
    assert values["format_version"] == 5
    assert values["belongs_to"]["recipe"] == {"train": {"batch_size": 4}}
