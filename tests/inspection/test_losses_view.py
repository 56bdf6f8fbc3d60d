"""Losses drawn on fixed consoles."""

import math

from tests.support.consoles import printed
from tfcli.draw.colors import WEIGHTS
from tfcli.inspection.predictions import Losses, ScoredToken
from tfcli.inspection.predictions.view import LossesView, losses_table
from tfcli.records.generation import Candidate

RECORD = Losses(
    kind="next",
    tokens=(
        ScoredToken(0, "<s>", "", "<s>", None, None, None),
        ScoredToken(1, "Tom", "", "Tom", 0.5, 1, Candidate("Tom", 0.6)),
        ScoredToken(2, "swam", " ", "swam", 3.0, 12, Candidate("ran", 0.25)),
        ScoredToken(3, "\n", "", "\n", 1.5, 2, Candidate(".", 0.5)),
        ScoredToken(4, "</s>", "", "</s>", 1.0, 1, Candidate("</s>", 0.37)),
    ),
    scored=4,
    loss=1.5,
    perplexity=math.exp(1.5),
    bits_per_byte=0.962,
    windows=2,
    context=4,
)


def test_without_color_numbers_stand_under_the_tokens():
    assert printed(LossesView(RECORD), 80).splitlines() == [
        "Losses · how surprising each token is",
        "−ln p(token | what the model sees), in nats; 0: it was certain",
        "",
        "<s>│Tom│swam│⏎  │",
        "    0.5 3.0  1.5",
        "</s>│",
        "1.0",
        "",
        "The text",
        "mean loss      1.500  nats per token, over 4 tokens",
        "perplexity      4.48  e^loss: as hard as so many equally likely tokens",
        "bits per byte  0.962  sum of losses / ln 2 / bytes of the text",
        "windows            2  of 4 tokens at most, side by side: the first tokens of",
        "                      each see little",
        "not scored         1  <s>",
        "",
        "Least expected",
        "  # token  loss  rank  likeliest",
        "  2 swam   3.00    12   25% ran",
        "  3 ⏎      1.50     2   50% .",
        "  4 </s>   1.00     1   37% </s>",
        "  1 Tom    0.50     1   60% Tom",
    ]


def test_in_color_the_text_runs_on_its_losses():
    """The largest loss is the last colour of the map, and what is not scored has none."""
    shown = printed(LossesView(RECORD), 80, "truecolor")
    red, green, blue = WEIGHTS.table[-1]
    running = shown.splitlines()[3]
    assert f"48;2;{red};{green};{blue}mswam\x1b[0m" in running
    assert running.startswith("\x1b[2m<s>\x1b[0m")
    assert running.endswith("⏎\x1b[0m")
    assert shown.splitlines()[4].startswith("\x1b[") and "</s>" in shown.splitlines()[4]
    assert "3.0\x1b[2m  nats" in shown


def test_widths():
    for width in (60, 140):
        lines = printed(LossesView(RECORD), width).splitlines()
        assert max(map(len, lines)) <= width
        assert "<s>│Tom│swam│⏎  │" in lines


def test_only_the_least_expected_are_listed():
    one = RECORD.tokens[2]
    many = Losses("masked", (one,) * 20, 20, 3.0, math.exp(3.0), None, 1, 32)
    lines = printed(LossesView(many), 80).splitlines()
    assert "The 8 least expected: 40.0 % of the loss" in lines
    assert sum(line.endswith("25% ran") for line in lines) == 8
    assert "each masked alone" in lines[0]
    assert not [line for line in lines if line.startswith(("bits per byte", "windows"))]


def test_a_text_without_any_surprise():
    sure = ScoredToken(0, "a", "", "a", 0.0, 1, Candidate("a", 1.0))
    assert "100% a" in printed(LossesView(Losses("next", (sure,), 1, 0.0, 1.0, 0.0, 1, 8)), 80, "truecolor")


def test_the_table_has_a_row_a_token():
    rows = list(losses_table(RECORD).rows)
    assert rows[0] == (0, "<s>", None, None, None, None)
    assert rows[2] == (2, "swam", 3.0, 12, "ran", 0.25)
