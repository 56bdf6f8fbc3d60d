"""metrics.jsonl: appended to, read around a torn end, and cut back to a checkpoint."""

import json
from pathlib import Path

import pytest

from tfcli.errors import BrokenInputError, TfcliError
from tfcli.records.runs import Evaluated, SettingChanged, StepsDone
from tfcli.runs.metrics import append_metrics, read_metrics, truncate_metrics


def steps(step: int, loss: float = 1.5) -> StepsDone:
    return StepsDone(step, 100, step * 64, loss, 1e-3, 0.5, 1000.0, 2.0, 3.0)


def evaluated(step: int) -> Evaluated:
    return Evaluated(step, 500, 1.25, 0.5, True, 0.1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.jsonl"
    for event in (steps(10), steps(20), evaluated(20), steps(30), evaluated(30)):
        append_metrics(path, event)
    return path


def test_a_line_is_the_event_by_name_and_its_fields(path: Path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["event"], line["step"]) for line in lines] == [
        ("step", 10),
        ("step", 20),
        ("evaluated", 20),
        ("step", 30),
        ("evaluated", 30),
    ]
    assert lines[0]["tokens"] == 640
    assert lines[0]["loss"] == 1.5
    assert lines[2]["accuracy"] == 0.5
    assert read_metrics(path) == lines


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_last_line_cut_short_is_passed_over(path: Path, cut: int):
    """Cut by 1 only the line's end is missing, and the line itself is whole."""
    path.write_bytes(path.read_bytes()[:-cut])
    assert len(read_metrics(path)) == (5 if cut == 1 else 4)


def test_no_file_is_no_lines(tmp_path: Path):
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_going_on_from_a_checkpoint_forgets_what_came_after_it(path: Path):
    truncate_metrics(path, 20)
    assert [line["step"] for line in read_metrics(path)] == [10, 20, 20]
    append_metrics(path, steps(30, loss=9.0))
    assert [(line["step"], line["loss"]) for line in read_metrics(path)][-1] == (30, 9.0)


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_going_on_after_a_kill_starts_on_a_line_of_its_own(path: Path, cut: int):
    path.write_bytes(path.read_bytes()[:-cut])
    truncate_metrics(path, 30)
    append_metrics(path, steps(40))
    assert [line["step"] for line in read_metrics(path)] == [10, 20, 20, 30, *([30] if cut == 1 else []), 40]


def test_truncating_keeps_every_number(path: Path):
    append_metrics(path, steps(31, loss=0.1 + 0.2))
    before = read_metrics(path)
    truncate_metrics(path, 31)
    assert read_metrics(path) == before


def test_a_damaged_line_is_told(tmp_path: Path):
    """Random bytes, or JSON that is no line of ours, are told by their line: what follows them is not lost in silence.
    A last line without its end is what a kill leaves."""
    path = tmp_path / "metrics.jsonl"
    for damage in (b"[1]", b"\xff\xfe\x00", b"[" * 100_000, b'{"step": true}', b'{"step": -1}', b"{}", b""):
        path.write_bytes(b'{"event": "step", "step": 1}\n' + damage + b'\n{"event": "step", "step": 2}\n')
        with pytest.raises(BrokenInputError, match="is damaged in line 2; remove that line"):
            read_metrics(path)
    path.write_bytes(b'{"event": "step", "step": 1}\n\xff\xfe\x00')
    assert [line["step"] for line in read_metrics(path)] == [1]


def test_a_changed_setting_is_a_line_with_from_and_to(path: Path):
    append_metrics(path, SettingChanged(30, "train.steps", 100, 200))
    assert read_metrics(path)[-1] == {"event": "changed", "step": 30, "key": "train.steps", "from": 100, "to": 200}


def test_truncating_counts_what_stays(path: Path):
    assert truncate_metrics(path, 20)[0] == 3
    assert truncate_metrics(path, 30)[0] == 3
    path.write_bytes(b"")
    assert truncate_metrics(path, 30)[0] == 0


def test_a_line_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(TfcliError, match=r"Cannot write .*metrics\.jsonl: No space left on device"):
        append_metrics(tmp_path / "metrics.jsonl", steps(10))
