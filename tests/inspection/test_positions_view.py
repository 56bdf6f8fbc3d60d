"""Positions on fixed consoles, as text; maps and curves themselves are tested beside their own files."""

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.inspection.positions import PositionsRecord
from tfcli.inspection.positions.view import PositionsView
from tfcli.records.arrays import frozen


def vectors(length: int, d_model: int, **about: object) -> PositionsRecord:
    table = np.tile([0.0, 1.0], (length, -(-d_model // 2)))[:, :d_model]
    similarity = frozen(np.linspace(1, 0, length))
    encoding = str(about.pop("encoding", "sinusoidal"))
    return PositionsRecord(encoding, None, length, d_model, frozen(table), similarity, **about)  # type: ignore[arg-type]


def biases(table: object, length: int, encoding: str = "t5", **about: object) -> PositionsRecord:
    return PositionsRecord(
        encoding,
        None,
        length,
        None,
        frozen(table),
        None,
        "distance",
        "head",
        **about,  # type: ignore[arg-type]
    )


def test_biases_as_weights_and_curves() -> None:
    # log 2 is half of the weight of log 4, and 0 a quarter; the second head has nothing but its largest.
    table = [[np.log(4), 5], [np.log(2), 5], [0, 5]]
    lines = printed(PositionsView(biases(table, 3))).splitlines()
    assert lines[:8] == [
        "Positions · t5",
        "2 heads down × 3 distances across",
        "       0 [  ░░▒▒▓▓██] 1  weight relative to the head's largest, scores equal",
        "       0   2",
        "head 0 ██▒▒░░",
        "head 1 ██████",
        "distance k: the key stands k tokens before its query",
        "bias: learned, a number a head for every bucket of distances; one for all layers",
    ]
    assert lines[9] == "Bias by distance, a curve a head"
    plot = [line.replace("│", "┤").partition("┤")[2] for line in lines[10:18]]
    assert plot[0].split() == ["b", "b", "b"], "5 at every distance"
    assert [line.index("a") for line in plot if "a" in line] == sorted(line.index("a") for line in plot if "a" in line)
    assert sum(line.count("a") for line in plot) == 3, "falling: from left to right, from top to bottom"
    assert lines[-1].split() == ["0", "distance", "k", "·", "head", "a", "0", "b", "1", "2"]


def test_curves_are_told_apart_by_colour_where_there_is_one() -> None:
    text = printed(PositionsView(biases([[0.0, 1], [1, 0]], 2)), color="standard")
    assert "━" in text
    assert "a 0" not in text


def test_distances_to_both_sides_are_said_to_be() -> None:
    lines = printed(PositionsView(biases(np.zeros((5, 1)), 3, first=-2, side="source"))).splitlines()
    assert lines[0] == "Positions · t5 · source side"
    assert lines[3] == "       -2  0   2"
    assert "distance k: the key stands k tokens before its query; where k < 0, after it" in lines
    assert lines[-1].split()[0] == "-2"


def test_alibi_names_its_slopes() -> None:
    text = printed(PositionsView(biases([[0, 0], [-0.25, -0.0625]], 2, "alibi")))
    assert "distance k: the key stands k tokens from its query\nbias: −m · k, each head with its own slope m\n" in text
    assert "m = 0.25, 0.0625\n" in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_many_heads_and_distances_are_left_out_and_said_to_be(width: int) -> None:
    # 64 heads in 32 lines: one of 2, and 8 curves: one of 8. 401 distances in half of the cells beside "head 62 ".
    record = biases(-np.abs(np.arange(-200, 201))[:, None] / np.arange(1, 65), 201, first=-200)
    text = printed(PositionsView(record), width)
    step = -(-401 // ((width - 8) // 2))
    assert f"drawn: one head of 2; one distance of {step}" in text
    assert "a curve for one head of 8" in text
    # Beside its largest at distance 0, where the map's middle is, a head's weights fall to both sides alike.
    row = next(line for line in text.splitlines() if line.startswith("head 62 "))[8:].split(" ")[0]
    assert row == row[::-1]
    assert max(map(cell_len, text.splitlines())) <= width


def test_halves_are_thinned_in_step() -> None:
    # 256 dimensions in 76 columns: one pair of 4, so 32 sines (all 0) and then their 32 cosines (all 1).
    table = np.repeat([[0.0, 1.0]], 128, axis=1).repeat(10, axis=0)
    record = PositionsRecord("sinusoidal", 1e4, 10, 256, frozen(table), frozen(np.linspace(1, 0, 10)), layout="halves")
    lines = printed(PositionsView(record)).splitlines()
    assert lines[0] == "Positions · sinusoidal · halves · base 10000"
    assert lines[1] == "10 positions down × 256 dimensions across: the sines, then the cosines"
    assert lines[4] == "0 " + "▒" * 32 + "│" + "█" * 32
    assert "drawn: every position; one pair of dimensions of 4" in lines
    assert "columns i and i + D/2: sine and cosine of n / L^(2i/D)" in lines


@pytest.mark.parametrize(
    ("about", "line"),
    [
        ({"first": 2}, "3 positions down (2 to 4) × 4 dimensions across"),
        ({"scaling": 4.0}, "Positions · sinusoidal · n divided by 4"),
        ({"layout": "interleaved"}, "columns 2i and 2i + 1: sine and cosine of n / L^(2i/D)"),
        (
            {"encoding": "rotary", "layout": "interleaved"},
            "the angle that turns dimensions 2i and 2i + 1 of a head (Dh: its size)",
        ),
        (
            {"encoding": "rotary", "layout": "halves"},
            "the angle that turns dimensions i and i + Dh/2 of a head (Dh: its size)",
        ),
    ],
    ids=str,
)
def test_what_is_special_is_said(about: dict[str, object], line: str) -> None:
    assert line in printed(PositionsView(vectors(3, 4, **about))).splitlines()


def test_rows_are_numbered_from_the_first_position() -> None:
    lines = printed(PositionsView(vectors(3, 4, first=2))).splitlines()
    assert [line.split()[0] for line in lines[4:7]] == ["2", "3", "4"]


def test_pairs_of_neighbours_are_drawn_as_their_halves_side_by_side() -> None:
    """Sine beside cosine would be stripes: here -1 beside 1. What is learned has no pairs and keeps its order."""
    table = frozen(np.tile([-1.0, 1.0], (2, 3))[:, :5])
    record = PositionsRecord("sinusoidal", 1e4, 2, 5, table, frozen([1, 0]), layout="interleaved")
    assert printed(PositionsView(record)).splitlines()[1:5] == [
        "2 positions down × 5 dimensions across: the sines, then the cosines",
        "  -1 [  ░░▒▒▓▓██] 1  value, centred on 0",
        "  0   4  1",
        "0       │████",
    ]
    rotary = replace(record, encoding="rotary")
    assert "across: the cosines, then the sines" in printed(PositionsView(rotary))
    assert printed(PositionsView(replace(record, encoding="learned", layout=None))).splitlines()[4] == "0   ██  ██"


def test_24_rows_are_drawn_of_a_table_whose_length_nobody_has_asked_for() -> None:
    lines = printed(PositionsView(vectors(30, 4))).splitlines()
    assert [line.split()[0] for line in lines[4:28]] == [str(number) for number in range(24)]
    assert lines[28] == "drawn: the first 24 positions; more with --length, every number with --csv"
    assert "30 positions down × 4 dimensions across" in lines
    assert "drawn" not in printed(PositionsView(vectors(24, 4)))
    asked = printed(PositionsView(vectors(30, 4), rows=30)).splitlines()
    assert [line.split()[0] for line in asked[4:34]] == [str(number) for number in range(30)]
