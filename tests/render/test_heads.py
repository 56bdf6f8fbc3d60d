"""Which head does what, as text at three widths, in colour, and as CSV."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.records.heads import HeadsRecord, HeadStatistics
from tfcli.render.heads import SORT_KEYS, HeadsView, fit_label, heads_table, ranked
from tfcli.render.table_csv import to_csv

COMMA = ((",", 0.25), (" the", 0.2), ("\x1b", 0.1))
PREVIOUS = HeadStatistics(
    "decoder_self", 0, 1, 0.25, 0.125, 0.9, 1.5, 0.05, 0.02, 0.93, None, 0.01, 0.02, None, COMMA, "previous token", 0.93
)
CONTENT = HeadStatistics(
    "decoder_self", 1, 0, 1.5, 0.5, 0.4, 12.25, 0.1, 0.1, 0.1, None, 0.2, 0.0, None, COMMA, "by content", 0.4
)
CROSS = HeadStatistics(
    "cross", 0, 0, 0.5, 0.2, 0.9, None, 0.2, None, None, None, None, None, 1.0, COMMA, "in order", 1.0
)
RECORD = HeadsRecord("the text", 12, 15, 4, (CONTENT, PREVIOUS, CROSS))


def test_at_sixty_columns_the_last_statistics_are_left_out():
    assert printed(HeadsView(RECORD), 60).splitlines()[:11] == [
        "Attention heads · which does what · clearest roles first",
        "3 heads, measured on the text, 12 tokens",
        "",
        "decoder self-attention",
        "       does                    prev  1st self  ind  dup  max",
        "L0 H1  previous token .93       .93  .05  .02  .01  .02  .90",
        "L1 H0  by content: , .25 ·the…  .10  .10  .10  .20  .00  .40",
        "",
        "cross-attention",
        "       does                          1st  ord  max even    H",
        "L0 H0  in order 1.00                 .20 1.00  .90  .20 0.50",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int):
    assert max(map(len, printed(HeadsView(RECORD), width).splitlines())) <= width


def test_every_column_that_is_shown_is_explained():
    wide = printed(HeadsView(RECORD), 140)
    for heading in ("prev", "1st", "self", "ind", "dup", "ord", "max", "even", "H", "dist"):
        assert f"\n{heading.ljust(5)}" in wide
    assert "\nnext" not in wide, "no head of these can look ahead"
    assert "\ndist" not in printed(HeadsView(RECORD), 60)
    assert "4 sequences of n = 15 random tokens" in wide
    assert ", .25 ·the .20 \\x1b .10" in wide


def test_colour_is_that_of_the_share_and_a_scale_says_so():
    colored = printed(HeadsView(RECORD), 80, "truecolor")
    assert "share of attention" in colored
    strong, weak = (next(part for part in colored.split("\x1b[") if part.endswith(f"m {n}")) for n in (".93", ".05"))
    red = [int(part.split("48;2;")[1].split(";")[0]) for part in (strong, weak)]
    assert red[0] > red[1], "from blue to yellow"
    assert "share of attention" not in printed(HeadsView(RECORD), 80)


def test_heads_are_ranked_by_any_statistic_and_stand_in_place_by_layer():
    heads = (CONTENT, PREVIOUS)
    assert ranked(heads, "role") == [PREVIOUS, CONTENT], "a place it looks at says more than content does"
    assert ranked(heads, "entropy") == [CONTENT, PREVIOUS]
    assert ranked(heads, "previous") == [PREVIOUS, CONTENT]
    assert ranked(heads, "layer") == [PREVIOUS, CONTENT]
    assert ranked(heads, "next") == [CONTENT, PREVIOUS], "what none has changes nothing"
    for key in SORT_KEYS:
        assert len(ranked(heads, key)) == 2


def test_as_csv_an_absent_statistic_is_an_empty_cell():
    heading, first, *_ = to_csv(heads_table(RECORD)).splitlines()
    assert heading.startswith("kind,layer,head,role,role_score,previous,next,first")
    assert first == "decoder_self,1,0,by content,0.4,0.1,,0.1,0.1,0.2,0.0,,0.4,0.5,1.5,12.25"


def test_a_label_is_cut_by_the_cells_it_takes():
    """Six letters of two cells are twelve: too many for ten."""
    assert (fit_label("学校学校学校"), fit_label("abcdefghij")) == ("学校学校… ", "abcdefghij")


def test_what_cannot_be_measured_is_a_dash():
    lines = printed(HeadsView(replace(RECORD, heads=(CONTENT, replace(PREVIOUS, entropy_share=None)))), 140)
    assert "  –" in next(line for line in lines.splitlines() if line.startswith("L0 H1"))[80:]
