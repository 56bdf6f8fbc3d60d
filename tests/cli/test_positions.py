"""``tfcli inspect positions`` as it is typed: formulas, runs, and what says nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli
from tests.support.runs import tiny_recipe, train_tiny, weights


def csv(*arguments: str | Path) -> list[list[float]]:
    result = tfcli("inspect", "positions", *arguments, "--csv")
    assert result.exit_code == 0, result.stderr
    return [[float(number) for number in line.split(",")] for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A run of three steps with a model of two heads and a context of 32."""

    def trained(architecture: str, **model: Any) -> Path:
        out = tmp_path_factory.mktemp("positions") / "run"
        train_tiny(tiny_recipe(architecture, {"model": model, "train": {"steps": 3}}), out)
        return out

    return trained


def test_alibi_has_a_column_a_head():
    """Four heads have the slopes 1/4, 1/16, 1/64 and 1/256; without --heads they are eight, from 1/2 on."""
    slopes = [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    shown = csv("--encoding", "alibi", "--heads", "4", "--length", "3")
    assert shown == [[-k * slope for slope in slopes] for k in range(3)]
    usual = csv("--encoding", "alibi")
    assert (len(usual), len(usual[0]), usual[1][0]) == (64, 8, -0.5)


def test_the_layout_of_a_formula_can_be_chosen():
    """At position 1 of size 2 both layouts are (sin 1, cos 1); of size 4 the halves have both sines first."""
    [interleaved, halves] = [
        csv("--length", "2", "--d-model", "4", "--layout", layout)[1] for layout in ("interleaved", "halves")
    ]
    assert [interleaved[i] for i in (0, 2, 1, 3)] == halves
    shown = tfcli("inspect", "positions", "--encoding", "rotary", "--layout", "interleaved").stdout
    assert "turns dimensions 2i and 2i + 1" in shown
    assert "turns dimensions i and i + Dh/2" in tfcli("inspect", "positions", "--encoding", "rotary").stdout


def test_heads_share_d_model_for_rotary():
    assert len(csv("--encoding", "rotary", "--d-model", "32", "--heads", "4")[0]) == 8


def test_json_of_biases_has_the_contracts_keys():
    shown = json.loads(tfcli("inspect", "positions", "--encoding", "alibi", "--length", "2", "--json").stdout)
    assert {key: shown[key] for key in ("encoding", "base", "length", "d_model")} == {
        "encoding": "alibi",
        "base": None,
        "length": 2,
        "d_model": None,
    }
    assert shown["table"] == [[0.0] * 8, [-(2.0**-h) for h in range(1, 9)]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--encoding learned", "Positions that are learned (learned) have no formula; name a run"),
        ("--encoding t5 --heads 4", "Positions that are learned (t5) have no formula; name a run"),
        ("--encoding none", "Without positions there is nothing to show; choose sinusoidal, rotary, alibi or a run"),
        ("--encoding alibi --d-model 8", "has heads and distances alone; leave --d-model out"),
        ("--encoding alibi --base 100", "has heads and distances alone; leave --base out"),
        ("--encoding alibi --layout halves", "has heads and distances alone; leave --layout out"),
        ("--d-model 5 --layout halves", "Half sines and half cosines need an even size, and 5 is odd"),
        ("--side target", "A formula has no sides; leave --side out"),
        ("RUN --layout halves", "has its own positions; leave --layout out"),
        ("RUN --encoding rotary", "has its own positions; leave --encoding out"),
        ("RUN --side source", "has no source side"),
        ("--loss", "A formula has no loss; leave --loss out"),
        ("RUN RUN", "2 runs are shown side by side with --compare"),
        ("--compare --encoding alibi", "--compare shows every encoding; leave --encoding out"),
        ("--compare --layout halves", "--compare shows every encoding; leave --layout out"),
        ("--encoding alibi --shift 1", "alibi adds numbers to scores, and has no vectors to carry"),
        ("--length 8 --shift 6", "A shift of 6 leaves no pairs of 8 positions; choose 1 to 5"),
    ],
)
def test_what_says_nothing_is_refused(arguments: str, words: str, trained: Callable[[str], Path]):
    result = tfcli("inspect", "positions", *arguments.replace("RUN", str(trained("decoder"))).split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())


def test_a_run_shows_the_table_of_a_side(run: Callable[..., Path]):
    learned = run("encoder-decoder", positions="learned")
    own = weights(learned / "model.safetensors")
    for side, name in (("source", "embedding"), ("target", "target_embedding")):
        shown = csv(learned, "--length", "3", "--side", side)
        assert shown == pytest.approx(own[f"{name}.positions"][:3].numpy(), abs=1e-6)
    assert "Positions · learned · source side" in tfcli("inspect", "positions", learned).stdout


def test_a_run_shows_its_biases(run: Callable[..., Path]):
    relative = run("encoder", positions="t5")
    own = weights(relative / "model.safetensors")["stack.positions.relative_bias.weight"]
    shown = csv(relative, "--length", "2")
    # Of 32 buckets the first 16 are for keys before the query: 1 after, 0 apart and 1 before are 17, 0 and 1.
    assert shown == pytest.approx(own[[17, 0, 1]].numpy(), abs=1e-6)
    assert "2 heads down × 63 distances across" in tfcli("inspect", "positions", relative).stdout


def test_a_run_without_positions_has_none_to_show(run: Callable[..., Path]):
    result = tfcli("inspect", "positions", run("decoder", positions="none"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Without positions there is nothing to show" in result.stderr


def test_json_says_what_is_met_and_what_carries():
    shown = json.loads(tfcli("inspect", "positions", "--d-model", "4", "--shift", "1", "--json").stdout)
    assert {one["name"]: one["met"] for one in shown["requirements"]} == {
        "bounded": True,
        "unique": True,
        "beyond its length": None,
        "consistent distance": True,
        "in the data": True,
    }
    assert (shown["origin"], shown["joins"], shown["beyond_context"]) == ("formula", "added to the embedding", None)
    assert shown["shift"]["matrix"][0] == pytest.approx([0.540302, 0.841471, 0, 0], abs=1e-6)
    plain = json.loads(tfcli("inspect", "positions", "--json").stdout)
    assert plain["shift"] is None


def test_the_matrix_as_csv():
    lines = tfcli("inspect", "positions", "--d-model", "2", "--shift", "1", "--csv").stdout.splitlines()
    assert lines[0] == "row,column,value"
    assert [float(line.split(",")[2]) for line in lines[1:]] == pytest.approx(
        [0.5403, 0.8415, -0.8415, 0.5403], abs=1e-4
    )


def test_all_encodings_with_those_of_runs(trained: Callable[[str], Path], tmp_path: Path):
    """The tiny decoder turns, the tiny encoder has learned 32 positions."""
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    runs = (trained("decoder"), trained("encoder"))
    result = tfcli("inspect", "positions", *runs, "--compare", "--json", "--svg", svg, "--html", html)
    found = json.loads(result.stdout)["encodings"]
    assert [(one["encoding"], one["origin"]) for one in found] == [
        ("sinusoidal", "formula"),
        ("learned", str(runs[1])),
        ("rotary", str(runs[0])),
        ("alibi", "formula"),
        ("t5", "untrained"),
    ]
    assert {one["length"] for one in found} == {32}
    assert "every encoding side by side" in html.read_text()
    assert "consistent" in svg.read_text()
    lines = tfcli("inspect", "positions", "--compare", "--csv").stdout.splitlines()
    assert lines[0] == "encoding,origin,joins,requirement,met,value,measured"
    assert len(lines) == 1 + 5 * 5


def test_one_encoding_twice_is_refused(trained: Callable[[str], Path], tmp_path: Path):
    other = tmp_path / "other"
    shutil.copytree(trained("decoder"), other)
    result = tfcli("inspect", "positions", trained("decoder"), other, "--compare")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "both have rotary positions; name one of the two" in " ".join(result.stderr.split())


def test_a_run_s_loss_beyond_its_context(trained: Callable[[str], Path]):
    shown = json.loads(tfcli("inspect", "positions", trained("decoder"), "--loss", "--json").stdout)
    bands = shown["beyond_context"]["bands"]
    assert [band["last"] for band in bands] == [32, 64, 128]
    [beyond] = [one for one in shown["requirements"] if one["name"] == "beyond its length"]
    assert beyond["value"] == pytest.approx(bands[-1]["loss"] / bands[0]["loss"])
    result = tfcli("inspect", "positions", trained("encoder"), "--loss")
    assert (result.exit_code, "An encoder's loss does not go on with a text" in result.stderr) == (2, True)


def test_without_colour_a_map_is_read_from_light_to_dark_and_has_24_rows_unless_asked():
    """Position 0 has the sines 0 and the cosines 1; at n = 3 of two dimensions sin 3 = 0.14 and cos 3 = -0.99."""
    lines = tfcli("inspect", "positions").stdout.splitlines()
    assert lines[2].strip().startswith("-1 [  ░░▒▒▓▓██] 1")
    assert lines[4] == " 0 " + "▒" * 32 + "│" + "█" * 32
    assert [line[:2].strip() for line in lines[4:28]] == [str(number) for number in range(24)]
    assert lines[28].startswith("drawn: the first 24 positions; more with --length")
    asked = tfcli("inspect", "positions", "--length", "30", "--d-model", "2").stdout.splitlines()
    assert asked[7] == " 3 ▒▒│  "
    assert asked[33].startswith("29 ")
