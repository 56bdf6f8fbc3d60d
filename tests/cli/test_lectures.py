"""The map of the lectures from the command line: listed, shown, and run idea by idea, in a terminal too."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tfcli.lectures import Idea, Lecture, Lectures, lectures


def test_the_five_with_how_many_ideas():
    lines = tfcli("lectures").stdout.splitlines()
    assert lines == tfcli("lectures", "show").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["bishop", "udl", "cs224n", "inf721", "encoder"]
    assert [int(line.split(" ideas")[0].split()[-1]) for line in lines] == [12, 9, 8, 9, 5]


def test_the_map_as_json():
    held = json.loads(tfcli("lectures", "--json").stdout)
    assert [len(one["ideas"]) for one in held["lectures"]] == [12, 9, 8, 9, 5]
    assert held["runs"].keys() == {"decoder", "encoder", "translator"}
    [bank] = [idea for one in held["lectures"] for idea in one["ideas"] if idea["id"] == "B10"]
    assert bank.keys() == {"id", "idea", "commands", "see", "run"}
    assert json.loads(tfcli("lectures", "show", "b10", "--json").stdout) == bank


@pytest.mark.parametrize("name", ["B10", "b10"])
def test_an_idea_with_its_commands_what_to_see_and_the_run_it_needs(name: str):
    idea = lectures().named("B10")
    assert isinstance(idea, Idea)
    shown = tfcli("lectures", "show", name).stdout
    for part in (*idea.commands, lectures().runs[idea.run]["command"]):
        assert part in shown
    assert " ".join(idea.see.split()) in " ".join(shown.split())
    assert "tests/" not in shown and "tfcli/inspection" not in shown, "a student needs no test and no mutation"
    assert max(map(len, shown.splitlines()[:3])) <= 80 and "See: " in shown


def test_a_lecture_with_its_ideas_and_its_slips():
    shown = " ".join(tfcli("lectures", "show", "udl").stdout.split())
    lecture = lectures().named("UDL")
    assert isinstance(lecture, Lecture)
    assert all(f"{idea.id} {idea.idea}" in shown for idea in lecture.ideas)
    assert all(slip["is"] in shown for slip in lecture.slips)


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("B13", "did you mean B1 or B10."),
        ("b4c", "did you mean B4 or B4a or B4b."),
        ("bishp", "did you mean bishop."),
        ("4", "see `tfcli lectures`."),
        ("", "see `tfcli lectures`."),
    ],
)
def test_another_name_is_answered_with_the_nearest(typed: str, remedy: str):
    for command in ("show", "run"):
        result = tfcli("lectures", command, typed)
        assert result.exit_code == 2
        assert result.stderr == f"tfcli: There is no lecture and no idea {typed!r}; {remedy}\n"


def test_an_idea_prints_what_its_command_prints():
    printed = tfcli("lectures", "run", "i7").stdout
    assert printed.startswith("I7   training in parallel")
    assert tfcli("explain", "masking").stdout in printed


def test_a_file_is_no_folder_of_runs(tmp_path: Path):
    (path := tmp_path / "x").touch()
    result = tfcli("lectures", "run", "U3", "--runs", path)
    assert result.exit_code == 2 and f"--runs {path} is no folder" in result.stderr


def test_what_needs_a_run_says_how_to_make_it_and_goes_on(tmp_path: Path):
    result = tfcli("lectures", "run", "C7", "--runs", tmp_path / "my runs")
    assert result.exit_code == 1 and "None of C7 could be shown" in result.stderr
    assert f"It needs {tmp_path / 'my runs' / 'decoder'}, which is made in " in result.stdout
    assert f"tfcli run quickstart --out '{tmp_path}/my runs'/decoder" in result.stdout


MAP = Lectures(
    [
        Lecture(
            "small",
            "Small",
            "rows",
            [],
            [
                Idea("X1", "a fault", ["tfcli explain attention --d-model 5 --heads 2"], "it"),
                Idea("X2", "a table", ["tfcli recipes show heads", "tfcli runs list nowhere"], "it"),
                Idea("X3", "a scale", ["tfcli explain masking"], "it"),
            ],
        )
    ],
    {},
)


def test_a_command_that_fails_is_named_at_the_end_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.lectures.lectures", lambda: MAP)
    result = tfcli("lectures", "run", "small")
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line[:1] == "X"] == [
        "X1   a fault",
        "X2   a table",
        "X3   a scale",
    ]
    assert "INF721's scores, d_k = 3" in result.stdout
    assert result.stderr.splitlines()[-1] == "tfcli: The commands of X1, X2 failed; see what they say above."


@contextmanager
def typed_in_a_terminal(*arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The process of a command, and the keyboard and screen that it has."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "tfcli", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(screen: int, text: str, seconds: float = 120) -> str:
    seen, end = "", time.monotonic() + seconds
    while text not in seen and time.monotonic() < end:
        try:
            seen += os.read(screen, 1 << 16).decode(errors="replace")
        except OSError:  # its other end is closed
            break
    assert text in seen, seen
    return seen


def test_in_a_terminal_each_waits_for_enter_and_q_ends():
    with typed_in_a_terminal("lectures", "run", "encoder", "--runs", "/nowhere") as (process, screen):
        first = read_until(screen, "Enter: E2   q: end ")
        assert "E1" in first and "E2  " not in first.replace("Enter: E2", "")
        os.write(screen, b"\n")
        read_until(screen, "Enter: E3   q: end ")
        os.write(screen, b"q\n")
        assert process.wait(60) == 0


def test_ctrl_c_ends_all_of_them_in_one_sentence():
    with typed_in_a_terminal("lectures", "run", "encoder") as (process, screen):
        read_until(screen, "Enter: E2   q: end ")
        process.send_signal(2)
        said = read_until(screen, "half-written.")
        assert process.wait(60) == 130
        assert said.count("Stopped") == 1 and "Traceback" not in said


def test_a_reader_that_goes_ends_all_of_them():
    process = subprocess.Popen(
        [sys.executable, "-m", "tfcli", "lectures", "run", "encoder"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(120) == 0
    assert process.stderr.read() == b""


def test_a_folder_with_a_control_character_steers_no_terminal_behind_a_pipe(tmp_path: Path) -> None:
    """`lectures run B7 | less -R`: the folder's name is written as an escape."""
    result = tfcli("lectures", "run", "B7", "--runs", str(tmp_path / "a\x1b[31m"))
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout and r"a\x1b[31m" in result.stdout
