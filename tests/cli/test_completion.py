"""Shell completion: what is offered, in bash as it is typed, and at what cost."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tfcli.cli.candidates import answer, candidates
from tfcli.corpora.open import KINDS, PREFIX
from tfcli.models.presets import PRESETS
from tfcli.recipe.recipe import known_keys
from tfcli.recipe.shipped import shipped_recipes

NAMES = [f"{PREFIX}{name}" for name in KINDS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs, one in a group, with a text and a recipe beside them."""
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart-1", "decoder-1", "day/decoder-2"):
        Path("runs", name, "checkpoints", "step-000250").mkdir(parents=True)
        Path("runs", name, "recipe.toml").touch()
    Path("book.txt").touch()
    Path("mine.toml").touch()


def offered(line: str) -> list[str]:
    return [value for value, _ in candidates(line)]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("tfcli tr", ["train"]),
        ("tfcli inspect att", ["attention", "attribution"]),
        ("tfcli inspect nosuch ", []),
        ("tfcli nosuch ", []),
        ("tfcli train --si", ["--size"]),
        ("tfcli train --size ", ["tiny", "mini", "small", "base"]),
        ("tfcli train --quiet --size=s", ["--size=small"]),
        ("tfcli train --set model.norm", [f"{key}=" for key in known_keys() if key.startswith("model.norm")]),
        ("tfcli train --set model.norm=", ["model.norm=rmsnorm", "model.norm=layernorm"]),
        ("tfcli train --set 'model.norm=l", ["model.norm=layernorm"]),
        ("tfcli train --set model.tie_embeddings=", ["model.tie_embeddings=true", "model.tie_embeddings=false"]),
        ("tfcli train --set train.steps=", ["train.steps=1000"]),
        ("tfcli run q", ["quickstart"]),
        ("tfcli lectures show B1", ["B1", "B10"]),
        ("tfcli lectures run b", ["bishop"]),
        ("tfcli run m", ["mine.toml"]),
        ("tfcli train --recipe sha", ["shakespeare-char", "shakespeare-sprint"]),
        ("tfcli generate ", ["last", "day/decoder-2", "decoder-1", "quickstart-1", "runs/"]),
        ("tfcli generate --temperature 0.5 q", ["quickstart-1"]),
        ("tfcli generate runs/q", []),
        ("tfcli runs compare decoder-1 q", ["quickstart-1"]),
        ("tfcli evaluate quickstart-1 --checkpoint ", ["best", "last", "250"]),
        ("tfcli evaluate quickstart-1 b", [*NAMES, "book.txt"]),
        ("tfcli train --data bo", ["book.txt"]),
        ("tfcli train --data a.de,bo", ["a.de,book.txt"]),
        ("tfcli train --set data.source=builtin:s", ["data.source=builtin:stories"]),
        ("tfcli generate -- --x", []),
        ("tfcli generate 'quick", ["quickstart-1"]),
        ("tfcli evaluate nosuch --checkpoint ", ["best", "last"]),
    ],
)
def test_what_can_stand_at_the_end_of_a_line(line: str, values: list[str]):
    assert offered(line) == values


def test_every_key_preset_recipe_and_source_is_offered():
    assert offered("tfcli train --set ") == [f"{key}=" for key in known_keys()]
    assert offered("tfcli train --preset ") == list(PRESETS)
    assert set(shipped_recipes()) < set(offered("tfcli run "))
    assert set(NAMES) < set(offered("tfcli prepare "))


def test_a_shell_gets_no_name_that_steers_a_terminal_and_runs_none(capsys: pytest.CaptureFixture[str]):
    for name in ("b\x1b[31m", "b\nc", "b\tc", "b$(touch x)"):
        Path(name).touch()
    answer("bash", "tfcli prepare b")
    assert capsys.readouterr().out.splitlines() == [*NAMES, "'b$(touch x)'", "book.txt"]
    answer("bash")
    assert capsys.readouterr().out.startswith("run\n")


_ASK = 'COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; _tfcli tfcli "{word}"; printf "%s\\n" "${{COMPREPLY[@]}}"'


@pytest.mark.parametrize(
    ("line", "word", "reply"),
    [
        ("tfcli generate q", "q", "quickstart-1\n"),
        ("tfcli train --set model.norm=l", "l", "layernorm\n"),  # bash breaks words at = and :
        ("tfcli train --set data.source=builtin:st", "st", "stories\n"),
        ("tfcli prepare builtin:p", "p", "python-docs\npt-en\n"),
        ("tfcli generate runs/", "runs/", "\n"),
    ],
)
def test_bash_gets_the_part_of_the_word_that_it_replaces(line: str, word: str, reply: str, tmp_path: Path):
    """Its completion function, called as bash calls it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tfcli").write_text(f'#!/bin/sh\nexec {sys.executable} -m tfcli "$@"\n')
    (tmp_path / "bin" / "tfcli").chmod(0o755)
    script = tfcli("completion", "bash").stdout + "compopt() { :; }\n" + _ASK.format(line=line, word=word)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert (done.stdout, done.stderr) == (reply, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_turns_it_on_is_a_script_of_the_shell(shell: str, tmp_path: Path):
    result = tfcli("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_TFCLI_COMPLETE={shell}" in result.stdout
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(result.stdout)
        assert subprocess.run([program, "-n", str(tmp_path / "script")]).returncode == 0


def test_an_answer_costs_at_most_150_ms():
    """Of a processor, which a machine with nothing else to do gives at once: no typer, no torch."""
    for line in ("tfcli train --set model.", "tfcli generate ", "tfcli inspect att"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "tfcli", line],
            env={**os.environ, "_TFCLI_COMPLETE": "zsh"},
            capture_output=True,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.stdout and not done.stderr
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.15
