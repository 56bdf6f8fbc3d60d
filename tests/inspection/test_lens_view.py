"""The logit lens drawn on fixed consoles."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.draw.colors import WEIGHTS
from tfcli.inspection.predictions import Lens
from tfcli.inspection.predictions.view import LensView, lens_table
from tfcli.records.arrays import frozen
from tfcli.records.generation import Candidate

RECORD = Lens(
    kind="next",
    tokens=("<s>", " the"),
    answers=(" the", None),
    top=(("<s>", " the"), (" a", " bank"), (" the", " bank")),
    probabilities=frozen([[1.0, 0.9], [0.3, 0.6], [0.5, 0.75]]),
    final=frozen([[0.0, 0.01], [0.2, 0.6], [0.5, 0.75]]),
    settled=(2, 1),
    position=1,
    candidates=(
        (Candidate(" the", 0.9), Candidate(" a", 0.05)),
        (Candidate(" bank", 0.6), Candidate(" river", 0.2)),
        (Candidate(" bank", 0.75), Candidate(" river", 0.125)),
    ),
)


def test_at_80_columns():
    assert printed(LensView(RECORD), 80).splitlines() == [
        "Logit lens · the next token, if the model stopped after each layer",
        "softmax(head(last norm(x))) of the residual stream x; the last row is the",
        "prediction",
        "",
        "  position 0      1",
        "      read <s>    ·the",
        " embedding <s>  █ ·the █",
        "   layer 0 ·a   ░ ·bank▒",
        "   layer 1 ·the ▒ ·bank▓",
        " true next ·the   ?",
        "stays from 1      0",
        "",
        "           0 [  ░░▒▒▓▓██] 1  p of the likeliest token",
        "At 1 of 2 positions the prediction stands before the last layer.",
        "",
        "Position 1, after ·the, layer by layer",
        "             p(·bank)  likeliest",
        " embedding         1%   ·the   █████████   90%  ·a     ▌            5%",
        "   layer 0        60%  ▸·bank  ██████      60%  ·river ██          20%",
        "   layer 1        75%  ▸·bank  ███████▌    75%  ·river █▎          12%",
        "▸ what the model predicts in the end, the likeliest from layer 0 on",
    ]


def test_of_an_encoder_it_says_that_nothing_is_masked():
    said = "The lens reads the unmasked text; inspect predictions masks each token."
    assert said in printed(LensView(replace(RECORD, kind="masked")), 80).splitlines()
    assert said not in printed(LensView(RECORD), 80)


def test_positions_that_do_not_fit_stand_below():
    """60 − 11 cells hold eight of six: position 8 begins another block."""
    many = replace(
        RECORD,
        tokens=RECORD.tokens * 5,
        answers=RECORD.answers * 5,
        top=tuple(row * 5 for row in RECORD.top),
        probabilities=frozen([list(row) * 5 for row in RECORD.probabilities]),
        final=frozen([list(row) * 5 for row in RECORD.final]),
        settled=RECORD.settled * 5,
    )
    lines = printed(LensView(many), 60).splitlines()
    ruler = [line.split()[1:] for line in lines if line.lstrip().startswith("position")]
    assert [number for row in ruler for number in row] == [str(number) for number in range(10)]
    assert len(ruler) == 2
    assert max(map(len, lines)) <= 60
    assert len([line for line in printed(LensView(many), 140).splitlines() if "position 0" in line]) == 1


def test_in_color_probabilities_are_papers():
    """0 is the first colour of the map and 1 the last; .5 the middle one."""
    shown = printed(LensView(RECORD), 80, "truecolor")
    for level in (len(WEIGHTS.table) - 1, (len(WEIGHTS.table) - 1) // 2):
        red, green, blue = WEIGHTS.table[level]
        assert f"48;2;{red};{green};{blue}m" in shown


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_console(width: int):
    assert max(map(len, printed(LensView(RECORD), width).splitlines())) <= width


def test_the_table_has_a_row_a_depth_and_position():
    rows = list(lens_table(RECORD).rows)
    assert len(rows) == 6
    assert rows[3] == (1, 1, " the", None, " bank", pytest.approx(0.6), pytest.approx(0.6))
