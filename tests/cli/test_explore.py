"""`tfcli explore`: what it refuses before it begins, and that what it shows is what the plain command prints."""

import csv
import io
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import tfcli
from tests.support.explorer import explore_headless
from tfcli.errors import TfcliError
from tfcli.explorer import scene as reading_module
from tfcli.explorer.scene import ReadText, Scene, TextReader, export, folded, plain_command, plain_words
from tfcli.explorer.state import View
from tfcli.inspection import passes as inputs_module
from tfcli.inspection.heads import Head
from tfcli.inspection.heads import statistics as copies_module
from tfcli.inspection.heads.find import given
from tfcli.inspection.heads.roles import heads
from tfcli.runs.load import load_run


def scene(run: Path, reading: ReadText, view: View | None = None, checkpoint: str = "best") -> Scene:
    return Scene(str(run), checkpoint, reading, view or reading.first_view(), "truecolor")


def printed(command: str, *more: str | Path) -> str:
    words = shlex.split(command)
    assert words[0] == "tfcli"
    # What stands behind "--" are arguments, so options come before.
    result = tfcli(*words[1:3], *more, *words[3:])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "text",
    ['Tom\'s "dog" $HOME', "-rf", "--head", "a\nb\\", "日本 \x1b[31m", ""],
    ids=["quotes", "dash", "option", "line", "wide", "empty"],
)
def test_the_command_reproduces_any_text(trained: Callable[[str], Path], text: str):
    run = trained("decoder")
    reading = TextReader(load_run(run)).read(text)
    shown = scene(run, reading, replace(reading.first_view(), place=Head("decoder_self", 1, 0)))
    [record] = json.loads(printed(plain_command(shown), "--json"))["records"]
    assert tuple(record["key_tokens"]) == reading.records[0].key_tokens
    np.testing.assert_array_equal(np.float32(record["weights"])[0, 0], reading.records[0].weights[1, 0])
    on_lines = "\n".join(folded(plain_words(shown), 30)).replace("\\\n", " ")
    assert shlex.split(on_lines) == shlex.split(plain_command(shown))


def test_a_text_of_one_dash_comes_from_stdin(trained: Callable[[str], Path]):
    shown = scene(trained("decoder"), TextReader(load_run(trained("decoder"))).read("-"))
    assert plain_command(shown).startswith("printf - | tfcli inspect attention ")


def test_targets_kinds_and_checkpoints_are_part_of_the_command(trained: Callable[[str], Path]):
    run = trained("encoder-decoder")
    reading = TextReader(load_run(run, "last")).read("O gato dorme.", "The cat")
    for kind in ("encoder_self", "decoder_self", "cross"):
        shown = scene(run, reading, View(Head(kind, 1, 1)), "last")
        assert "--checkpoint last" in plain_command(shown)
        [record] = json.loads(printed(plain_command(shown), "--json"))["records"]
        np.testing.assert_array_equal(np.float32(record["weights"])[0, 0], reading.record(kind).weights[1, 1])


VIEWS = {
    "head": {},
    "scores": {"quantity": "scores"},
    "mean": {"combined": "mean"},
    "rollout": {"combined": "rollout"},
    "difference": {"compared": True, "marked": Head("decoder_self", 0, 1)},
}


@pytest.mark.parametrize("changes", VIEWS.values(), ids=VIEWS)
def test_what_is_seen_and_written_is_what_the_command_prints(
    changes: dict[str, object], trained: Callable[[str], Path], tmp_path: Path
):
    """The numbers of the map, and every file to the letter, but for the options that a command writes it with."""
    run = trained("decoder")
    reading = TextReader(load_run(run)).read("Tom swam")
    view = replace(View(Head("decoder_self", 1, 0)), **changes)  # type: ignore[arg-type]
    shown = scene(run, reading, view)
    command = plain_command(shown)
    table = list(csv.DictReader(io.StringIO(printed(command, "--csv"))))
    column = {"scores": "score", "weights": "weight"}[view.quantity] if not view.compared else "difference"
    values = np.float32([row[column] for row in table]).reshape(shown.values.numbers.shape)
    visible = ~np.isnan(shown.values.numbers)
    np.testing.assert_allclose(values[visible], shown.values.numbers[visible], atol=1e-6)

    for ending in ("csv", "json", "svg", "html"):
        assert export(shown, f"{tmp_path}/ours.{ending}") == tmp_path / f"ours.{ending}"
    svg, html = tmp_path / "theirs.svg", tmp_path / "theirs.html"
    options = ["--json", "--svg", str(svg), "--html", str(html)]
    as_json = printed(command, *options)
    # A command also says with how many threads it computed.
    theirs_as_json = json.loads(as_json)
    assert theirs_as_json.pop("threads") == 1
    assert (tmp_path / "ours.json").read_text() == json.dumps(theirs_as_json, ensure_ascii=False) + "\n"
    assert (tmp_path / "ours.csv").read_text() == printed(command, "--csv")
    for ending, theirs in (("svg", svg), ("html", html)):
        assert f" · {escape(command, quote=False)}</" in (ours := (tmp_path / f"ours.{ending}").read_text())
        assert ours == theirs.read_text().replace(f" {shlex.join(options)}", "")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "'' is a folder; name a file in it."),
        ("picture.png", "does not say what to write; let it end in .svg .html .csv or .json."),
        ("~nobody-at-all/a.svg", "Cannot write '~nobody-at-all/a.svg'"),
        ("a" * 300 + ".svg", "File name too long"),
        ("file/a.svg", "file is a file, not a folder"),
    ],
)
def test_a_name_that_cannot_be_written_is_refused(
    name: str, sentence: str, trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TfcliError) as refused:
        export(scene(trained("decoder"), TextReader(load_run(trained("decoder"))).read("Tom")), name)
    assert sentence in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_text_is_read_as_the_model_reads_it_with_statistics_of_every_head(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    reading = TextReader(run).read("O gato dorme.", "The cat")
    assert reading.kinds() == ("encoder_self", "decoder_self", "cross")
    assert {(one.kind, one.layer, one.head) for one in reading.statistics} == {
        (kind, layer, head) for kind in reading.kinds() for layer in range(2) for head in range(2)
    }
    alone = TextReader(load_run(trained("decoder"))).read("")
    assert (alone.records[0].weights.shape[2:], alone.statistics) == ((1, 1), ())


def test_each_text_is_translated_and_read_once_and_copies_are_measured_once(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    passes: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **settings: Any) -> Any:
            passes.append(name)
            return function(*args, **settings)

        return count

    modules = ((reading_module, "record_model"), (copies_module, "record_model"), (inputs_module, "translate"))
    for module, name in modules:
        label = f"{module.__name__.rpartition('.')[2]} {name}"
        monkeypatch.setattr(module, name, counted(label, getattr(module, name)))
    run = load_run(trained("encoder-decoder"))
    reader = TextReader(run)
    reader.read("O gato dorme.")
    assert passes == ["passes translate", "scene record_model", *["statistics record_model"] * 4]
    passes.clear()
    second = reader.read("O rato")
    assert passes == ["passes translate", "scene record_model"]
    assert second.statistics == heads(run, given(run, "O rato", None)).heads


@pytest.mark.parametrize(
    ("told", "theme"), [("0;15", "light"), ("15;0", "dark"), ("15;default;0", "dark"), ("", "dark")]
)
def test_it_begins_on_the_background_that_the_terminal_tells(
    told: str, theme: str, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    shown: list[str] = []
    explore_headless(monkeypatch)
    monkeypatch.setattr("tfcli.explorer.app.Explorer.run", lambda self: shown.append(self.theme))
    monkeypatch.setenv("COLORFGBG", told)
    assert tfcli("explore", trained("decoder")).exit_code == 0
    assert shown == [theme]


def test_without_a_terminal_it_is_a_sentence(trained: Callable[[str], Path]):
    result = tfcli("explore", trained("decoder"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "tfcli explore needs a terminal" in result.stderr
    assert "tfcli inspect attention" in result.stderr


def test_stderr_that_is_no_terminal_is_a_sentence(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.explorer.command.is_terminal", lambda stream=None: stream is not sys.stderr)
    result = tfcli("explore", trained("decoder"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "draws on stderr, which is no terminal here" in result.stderr


def test_without_textual_it_says_how_to_install_it(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.explorer.command.is_terminal", lambda stream=None: True)
    drawing = {"app", "export", "keys", "map", "panels", "scene"}
    for name in list(sys.modules):
        if name.split(".")[0] == "textual" or name in {f"tfcli.explorer.{one}" for one in drawing}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    result = tfcli("explore", trained("decoder"))
    assert result.exit_code == 2
    assert "pip install 'tfcli[tui]'" in " ".join(result.stderr.split())


def test_what_is_wrong_is_said_before_the_screen_is_taken(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    explore_headless(monkeypatch)
    missing = tfcli("explore", tmp_path / "none")
    assert (missing.exit_code, missing.stdout) == (2, "")
    long = tfcli("explore", trained("decoder"), "a" * 99)
    assert long.exit_code == 2
    assert "The text has 100 tokens and the context holds 32" in long.stderr
    assert tfcli("explore", trained("decoder"), "a", "--target", "b").exit_code == 2
    broken = tmp_path / "broken"
    shutil.copytree(trained("decoder"), broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    result = tfcli("explore", broken)
    assert result.exit_code == 1
    assert len(result.stderr.strip().splitlines()) <= 3
    assert "Traceback" not in result.stderr


def test_the_last_view_is_printed_as_a_command_that_runs(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    explore_headless(monkeypatch, "home", "j", "e", "x", "enter")
    result = tfcli("explore", trained("decoder"), "Tom")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("tfcli inspect attention ")
    assert "\n" not in result.stdout.rstrip("\n")
    printed(result.stdout)
