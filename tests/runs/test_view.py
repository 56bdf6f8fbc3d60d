"""Runs drawn: a list, one in full, several side by side; in colour, in ASCII, and as files."""

import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.support.consoles import printed
from tests.support.run_folders import falling, write_run
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import duration
from tfcli.draw.svg import picture_svg
from tfcli.records.runs import RunSummary, SettingChanged, StepPoint, StepsDone
from tfcli.runs.curves_view import _curve, _mean_series, curves_picture
from tfcli.runs.overview import compare, read_detail
from tfcli.runs.view import ComparisonView, RunList, RunView, history_csv

GOOD = RunSummary(
    "runs/decoder-1", "decoder-1", "finished", 7200.0, "decoder", 812544, 1000, 1000, 1 << 20, 1.88214, 900, 200.0
)
PAIRS = replace(GOOD, name="x", state="interrupted", architecture="encoder-decoder", step=40, best_loss=None)
BROKEN = RunSummary("runs/b", "b", "damaged", 5.0, problem="runs/b/recipe.toml is not valid TOML (" + "x" * 90 + ")")
EVIL = replace(GOOD, name="a\x1b[31m\nb\u202e")


def in_ascii(renderable: object, width: int = 80) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    Console(file=file, width=width, color_system=None, _environ={}).print(renderable)
    file.flush()
    return file.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    spike = {"spike": True, "loss": 5.0}
    events = [
        replace(event, **spike) if isinstance(event, StepsDone) and event.step == 230 else event
        for event in falling(400)
    ]
    events.insert(30, SettingChanged(250, "train.steps", 300, 400))
    return write_run(tmp_path / "decoder-1", events, {"train": {"steps": 400}}, finished=False)


def test_a_list_by_hand():
    lines = printed(RunList([GOOD, PAIRS, BROKEN]), 80).splitlines()
    assert lines[0].split() == ["run", "state", "model", "params", "steps", "best", "loss", "time", "age"]
    assert " ".join(lines[1].split()) == "decoder-1 finished decoder 813 k 1000 1.8821 @900 3 min 2 h"
    assert " ".join(lines[2].split()) == "x interrupted enc-dec 813 k 40/1000 - 3 min 2 h"
    assert lines[3].startswith("b          damaged      recipe.toml is not valid TOML (xxx")
    assert {line.index(word) for line, word in zip(lines, ("state", "fin", "int", "dam"), strict=True)} == {11}


@pytest.mark.parametrize("width", [40, 80, 140])
def test_the_list_stays_inside_the_terminal(width: int):
    long = replace(GOOD, name="a-name-" * 20)
    lines = printed(RunList([GOOD, long, BROKEN, PAIRS, EVIL]), width).splitlines()
    # A name that is long, which is to be typed, has a line of its own.
    assert len(lines) == {40: 8, 80: 7, 140: 7}[width]
    assert max(map(cell_len, lines)) <= width
    assert any("…" in line for line in lines)


@pytest.mark.parametrize("color", [None, "truecolor"])
def test_names_steer_no_terminal(color, tmp_path: Path):  # type: ignore[no-untyped-def]
    text = printed(RunList([EVIL]), 140, color)
    assert r"a\x1b[31m⏎b\u202e" in text
    assert "\x1b[31m\n" not in text
    path = write_run(tmp_path / "a\x1b[31m\nb", falling(40), source="x\x1b[2Jy")
    other = write_run(tmp_path / "other", falling(40))
    for view in (RunView(read_detail(path)), ComparisonView(compare([path, other]))):
        text = printed(view, 200, color)
        assert "\x1b[2J" not in text
        assert "\x1b[31m\nb" not in text
        assert r"a\x1b[31m⏎b" in text


@pytest.mark.parametrize("width", [80, 140])
def test_a_run_in_full(run: Path, width: int):
    text = printed(RunView(read_detail(run)), width)
    assert max(map(cell_len, text.splitlines())) <= width
    flat = " ".join(text.split())
    for words in (
        "decoder, 52 parameters, interrupted",
        "400 of 400 steps, 410 k tokens in 40 s",
        "builtin:stories (900 documents, 100 more for validation; split hash)",
        "char, 12 ids (0123456789abcdef)",
        "1 layer of 16, 2 heads, context 32",
        "after step 250: train.steps from 300 to 400",
        "padding 3.0 % of the places in batches",
        "spikes at step 230",
        "model.d_model 16 not 128",
        "● validation loss",
        "▲ spike",
        "learning rate",
        "checkpoints/step-000400",
    ):
        assert words in flat, words


def test_plots_under_each_other_stand_in_line(run: Path):
    lines = printed(RunView(read_detail(run)), 80).splitlines()
    assert {line.index("└") for line in lines if "└" in line} == {7}
    assert sum("└" in line for line in lines) == 2


def test_without_unicode_curves_are_ascii(run: Path):
    detail = read_detail(run)
    text = in_ascii(RunView(detail))
    assert "?" not in text
    assert text.isascii()
    drawn = [line for line in text.splitlines() if re.match(r"^ +[\d.]* [|+]", line)]
    assert len(drawn) == 10 + 3 + 2  # two plots, each with its axis
    assert "o validation loss" in text
    assert "* spike" in text


def test_a_line_in_ascii_keeps_its_shape():
    """As in Braille: 4 cells, one line; the lower half of a cell is ".", the upper "'"."""
    lines = in_ascii(Plot((Series("s", (0, 7), (0, 3)),), "x", height=1), 7).splitlines()
    assert lines[0].endswith("..''")


def test_what_is_beyond_the_range_of_a_plot_is_cut_off():
    series = Series("s", (0, 1, 2, 3), (100.0, 2.0, None, 1.0))
    lines = printed(Plot((series,), "x", height=4, x_range=(0, 3), y_range=(1.0, 2.0)), 40).splitlines()
    assert "2" in lines[0].split("┤")[0]
    drawn = [re.split("[┤│]", line)[1] for line in lines[:4]]
    assert [line[:1].strip() for line in drawn] == ["", "", "", ""]  # nothing at x = 0, nor a line to there
    assert drawn[0].strip()  # but a dot at (1, 2)


def test_a_line_carries_its_letter_and_ends_with_it():
    series = Series("s", tuple(range(100)), (1.0,) * 100, letter="c")
    line = printed(Plot((series,), "x", height=1), 76).splitlines()[0]
    places = [place for place, sign in enumerate(line) if sign == "c"]
    assert places[-1] == len(line) - 1
    assert {later - earlier for earlier, later in pairwise(places[:-1])} == {12}


def test_a_comparison_marks_the_best_and_tells_lines_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    paths = [
        write_run(Path(f"run-{n}"), falling(400, 2.0 - n / 10), {"train": {"learning_rate": (n + 1) / 1000}})
        for n in range(3)
    ]
    text = printed(ComparisonView(compare(paths)), 80)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert [line.split()[0] for line in lines[1:4]] == ["a", "b", "c"]
    losses = [event.loss for event in falling(400, 1.8) if type(event).__name__ == "Evaluated"]
    best = f"{min(losses):.4f}*"  # type: ignore[type-var]
    assert [best in line for line in lines[1:4]] == [False, False, True]
    assert "train.learning_rate  0.001  0.002  0.003" in text
    assert "model.d_model" not in text
    plot = text[text.index("Validation loss") :]
    assert all(plot.count(letter) >= 3 for letter in "abc")


@pytest.mark.parametrize("width", [44, 60, 80, 140])
def test_no_value_is_cut_and_no_two_runs_have_one_name(width: int, tmp_path: Path):
    names = [f"runs-of-november-with-a-name-that-is-rather-long-{n}" for n in range(3)]
    paths = [write_run(tmp_path / name, falling(400, 2.0 - n / 10)) for n, name in enumerate(names)]
    comparison = compare(paths)
    table = printed(ComparisonView(comparison), width).split("\nSettings that differ")[0]
    assert max(map(cell_len, table.splitlines())) <= max(width, 44)
    assert all(line[1] == " " for line in table.splitlines() if line), "a letter keeps its distance"
    for number in range(3):
        assert len(re.findall(rf"long-{number}\s", table)) == 1
    for run in comparison.runs:
        assert f"{run.summary.best_loss:.4f}" in table
        assert duration(run.summary.seconds) in table  # type: ignore[arg-type]


def test_the_runs_of_one_group_are_one_curve_over_their_band():
    """Losses 1 and 3 at every step: a line at 2, and dots from 1 to 3 under it."""
    events = [[StepPoint(step, 0, 0.0, loss, 0.0, 0.0) for step in range(1, 40)] for loss in (1.0, 3.0)]
    curves = [_curve(points, "step", 1.0) for points in events]
    series = _mean_series(curves, 0, "mean of ab")
    assert set(series.ys) == {2.0}
    assert series.band is not None and (set(series.band[0]), set(series.band[1])) == ({1.0}, {3.0})
    lines = printed(Plot((series,), "step", height=9), 60).splitlines()[:9]
    drawn = [re.split("[┤│]", line)[1].strip() for line in lines]
    assert all(drawn[1:-1])  # shaded from top to bottom
    assert "a" in drawn[4] and not any("a" in line for line in drawn[:4] + drawn[5:])


def test_eight_runs_at_eighty_columns(tmp_path: Path):
    paths = []
    for n in range(8):
        settings = {"train": {"learning_rate": (1 + n // 4) * 1e-3}, "data": {"seed": n}}
        paths.append(write_run(tmp_path / f"a-long-name-of-a-run-{n}", falling(100), settings, source=f"book-{n}.txt"))
    text = printed(ComparisonView(compare(paths)), 80)
    assert max(map(cell_len, text.splitlines())) <= 80
    [rates] = [line for line in text.splitlines() if line.startswith("train.learning_rate")]
    assert rates.split()[1:] == ["abcd", "0.001", "efgh", "0.002"]
    assert "h book-7.txt" in text


def test_losses_of_different_tokenizers_have_no_best(tmp_path: Path):
    one = write_run(tmp_path / "one", falling(100))
    two = write_run(tmp_path / "two", falling(100, 1.5), tokenizer="feed")
    text = printed(ComparisonView(compare([one, two])), 80)
    assert "*" not in text
    assert "different tokenizers" in " ".join(text.split())


@pytest.mark.parametrize(("by", "label"), [("step", "step"), ("tokens", "tokens"), ("time", "seconds")])
def test_curves_over_steps_tokens_or_time(by, label: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    slow = write_run(tmp_path / "slow", falling(100, seconds=0.5))
    fast = write_run(tmp_path / "fast", falling(100, 1.5, seconds=0.1))
    text = printed(ComparisonView(compare([slow, fast]), by), 80)
    axis = [line for line in text.splitlines() if line.endswith({"step": "100", "tokens": "102,400", "time": "50"}[by])]
    assert len(axis) == 2
    assert all(label in line for line in axis)


def test_the_svg_is_the_same_every_time_and_well_formed(run: Path):
    history = read_detail(run).history
    text = picture_svg(curves_picture("a <b> & c", history))
    assert text == picture_svg(curves_picture("a <b> & c", history))
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "a <b> & c"
    words = [part.text or "" for part in root.iter(f"{space}text")]
    assert {"●", "validation", "▲", "spike"} <= set(words)
    assert words.count("▲") == 1 + 1  # a spike, and its name
    dots = [one for one in root.iter(f"{space}circle") if one.attrib["fill"] == "#15803d"]  # of the learning rate
    heights = [float(one.attrib["cy"]) for one in sorted(dots, key=lambda one: float(one.attrib["cx"]))]
    assert heights == sorted(heights)  # the learning rate falls, and y grows downwards
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    places = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{space}circle")]
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_the_csv_has_every_point(run: Path):
    history = read_detail(run).history
    lines = history_csv(history).splitlines()
    assert lines[0] == "event,step,tokens,seconds,loss,learning_rate,grad_norm,spike,accuracy,of,part,objective"
    assert len(lines) == 1 + len(history.training) + len(history.validation)
    first = falling(400)[0]
    assert isinstance(first, StepsDone)
    assert lines[1] == f"step,10,10240,1.0,{first.loss},{first.learning_rate},0.5,False,,,,"


def test_a_run_without_curves_is_drawn(tmp_path: Path):
    text = printed(RunView(read_detail(write_run(tmp_path / "run"))), 80)
    assert "└" not in text
    assert "0 of 12 steps" in text
    assert picture_svg(curves_picture("run", read_detail(tmp_path / "run").history)).endswith("</svg>\n")


def test_a_model_of_attention_alone_is_said_to_have_no_feed_forward(tmp_path: Path):
    for d_ff, said in ((0, "no feed-forward"), (64, "swiglu")):
        folder = write_run(tmp_path / str(d_ff), falling(20), {"model": {"d_ff": d_ff}})
        text = " ".join(printed(RunView(read_detail(folder)), 140).split())
        assert f"rmsnorm (pre), {said}" in text


@pytest.mark.parametrize("loss", [1e308, -1e308])
def test_a_huge_loss_of_a_damaged_log_is_a_short_number(loss: float) -> None:
    """Of 308 digits nobody reads the last four decimals."""
    shown = printed(RunList([replace(GOOD, best_loss=loss)]), 120)
    assert f"{loss:g} @900" in shown and "0000000" not in shown
