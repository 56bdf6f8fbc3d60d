"""Maps on fixed consoles, as text; colour is looked at in the escape codes of a cell."""

import numpy as np
import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.draw.colors import WEIGHTS
from tfcli.draw.heatmap import HeatMap
from tfcli.inspection.positions import PositionsRecord
from tfcli.inspection.positions.view import PositionsView
from tfcli.records.arrays import frozen

NAN = float("nan")
DARK, LIGHT = ("{};{};{}".format(*WEIGHTS.table[level]) for level in (0, -1))


def test_wide_cells_as_shades() -> None:
    # 0, .5, 1 are the first, third and fifth of five shades; .25 and .75 lie between.
    text = printed(HeatMap(frozen([[0, 0.5, 1], [NAN, 0.25, 0.75]]), "weight", ("a", "b"), empty="masked"))
    assert text.splitlines() == ["  0 [  ░░▒▒▓▓██] 1  weight  –: masked", "  0   2", "a   ▒▒██", "b ––░░▓▓"]


def test_column_labels_are_written_downwards_over_wide_cells() -> None:
    text = printed(HeatMap(frozen([[1, 0]]), "weight", ("q",), ("by", "日本é")))
    assert text.splitlines()[1:] == ["    日", "  b 本", "  y é", "q ██"]


def test_half_blocks_hold_two_rows_in_ink_and_paper() -> None:
    # Upper row 0, 1; lower row 1 and nothing: the second cell has ink alone.
    text = printed(HeatMap(frozen([[0, 1], [1, NAN]]), "weight", wide=False), color="truecolor")
    assert text.splitlines()[2] == f"\x1b[38;2;{DARK};48;2;{LIGHT}m▀\x1b[0m\x1b[38;2;{LIGHT}m▀\x1b[0m"


def test_256_colours_use_our_own_steps() -> None:
    text = printed(HeatMap(frozen([[0, 1]]), "weight"), color="256")
    assert text.splitlines()[2] == "\x1b[48;5;17m  \x1b[0m\x1b[48;5;227m  \x1b[0m"


@pytest.mark.parametrize("color", ["standard", None])
def test_sixteen_colours_and_none_show_shades(color: str | None) -> None:
    assert "██" in printed(HeatMap(frozen([[0, 1]]), "weight"), color=color).splitlines()[2]  # type: ignore[arg-type]


def test_no_color_wins_over_what_the_terminal_can(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from rich.console import Console

    for environment in ({"NO_COLOR": "1", "TERM": "xterm-256color"}, {"TERM": "dumb"}):
        console = Console(file=io.StringIO(), width=60, force_terminal=True, _environ=environment)
        console.print(HeatMap(frozen([[0, 1]]), "weight"))
        assert "  ██" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("color", ["truecolor", None])
def test_a_map_that_is_too_wide_keeps_its_peak_and_says_so(width: int, color: str | None) -> None:
    values = np.zeros((316, 316), dtype=np.float32)
    values[200, 100] = 1.0
    text = printed(HeatMap(values, "weight", square=True), width, color)  # type: ignore[arg-type]
    factor = -(-316 // width)  # 6, 4 and 3
    side = -(-316 // factor)
    assert f"316 × 316 drawn as {side} × {side}: a cell is the largest of {factor} × {factor}" in text
    if color is None:
        peak = text.splitlines()[3 + 200 // factor]  # behind the scale, the sentence and the ruler
        assert peak == " " * (100 // factor) + "█"
        assert max(map(cell_len, text.splitlines())) <= width


def test_the_ruler_counts_columns_of_the_values() -> None:
    text = printed(HeatMap(np.ones((1, 100), dtype=np.float32), "x"), 50)
    # Two values a cell: the tenth cell begins at value 20.
    assert text.splitlines()[-2] == "0         20        40        60        80"


def positions(length: int, d_model: int) -> PositionsRecord:
    table = np.tile([0.0, 1.0], (length, d_model // 2))
    return PositionsRecord("sinusoidal", 10000.0, length, d_model, frozen(table), frozen(np.linspace(1, 0, length)))


def test_positions_as_a_signed_map_and_a_curve() -> None:
    table = frozen([[0, 1, -1, 0.5], [0.25, -0.5, 0, -0.75]])
    lines = printed(PositionsView(PositionsRecord("learned", None, 2, 4, table, frozen([1, 0])))).splitlines()
    assert lines[:6] == [
        "Positions · learned",
        "2 positions down × 4 dimensions across",
        "  -1 [  ░░▒▒▓▓██] 1  value, centred on 0",
        "  0   2",
        "0 ▒▒██  ▓▓",
        "1 ▒▒░░▒▒",
    ]
    assert lines[7] == "Dot product of two positions by their distance"
    assert lines[-1].split() == ["0", "distance", "k", "━", "similarity", "1"]


def test_positions_leave_out_whole_pairs_and_say_so() -> None:
    text = printed(PositionsView(positions(100, 256), rows=100), 80)
    # 100 positions in at most 64 rows: one of 2. 256 dimensions in 76 columns: one pair (sine, cosine) of 4.
    assert "drawn: one position of 2; one pair of dimensions of 4" in text
    assert text.splitlines()[4] == " 0 " + "▒█" * 32
    assert text.splitlines()[5].startswith(" 2 ")
