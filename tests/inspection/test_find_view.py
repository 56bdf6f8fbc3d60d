"""Heads that were looked for, as text at three widths, in colour, and as CSV."""

import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv, to_json
from tfcli.inspection.heads import (
    AlignmentFound,
    BankFound,
    BankVectors,
    Head,
    HeadReads,
    ReadSentence,
    SenseShares,
    Share,
    WordFound,
)
from tfcli.inspection.heads.view import AlignmentView, BankView, found_table

RED = ReadSentence(("o", "livro", "vermelho"), (0.02, 0.1, 0.88), "red", (2,), True)
LOST = ReadSentence(("the", "bo\x1bat", "bank"), (0.5, 0.25, 0.2), "bank", (1,), False)
ALIGNMENT = AlignmentFound(
    Head("cross", 1, 0), 200, Share(9, 10), 300, Share(3, 4), Share(1, 2), Share(1, 4), Share(2, 4), 0.125, (RED,)
)
NOUN, VERB = Head("decoder_self", 0, 3), Head("decoder_self", 0, 2)
BANK = BankFound(
    NOUN,
    SenseShares(Share(10, 10), Share(9, 10)),
    SenseShares(Share(120, 120), Share(113, 120)),
    chance=0.05,
    words=(WordFound("boat", VERB, Share(4, 4), Share(3, 4)),),
    lecture=(HeadReads(NOUN, LOST), HeadReads(VERB, LOST)),
    vectors=(BankVectors(0, 1.0, 1.0, 1.0, None, 1.0), BankVectors(1, 0.61, 0.62, 0.5, Share(9, 10), None)),
)


def test_an_alignment_says_which_head_how_often_and_where():
    assert printed(AlignmentView(ALIGNMENT), 80).splitlines() == [
        "Which head aligns words · cross-attention, layer 1, head 0",
        "A target word is found when, on the row that predicts it, a source word that the",
        "grammar put there gets more attention than any other: the sum over its tokens.",
        "Punctuation is no word.",
        "",
        "Words found",
        "held out           75.0 %  3 of 4 words of 300 sentences that training never had",
        "of them reordered  50.0 %  1 of 2 words",
        "chosen on          90.0 %  9 of 10 words of 200 training sentences",
        "all heads' mean    25.0 %  their average in place of the head",
        "same place         50.0 %  the source word of that number, without looking",
        "chance             12.5 %  any source word",
        "",
        "Words that change their place",
        "o livro .10 [vermelho .88] → red  ✓",
        "weight of a word, as a number from .05 up; in brackets: the right one",
    ]


def test_a_bank_says_which_head_finds_which_word_and_how_far_apart_the_vectors_are():
    text = printed(BankView(BANK), 140)
    assert text.splitlines()[0] == "Which head tells the banks apart · decoder self-attention, layer 0, head 3"
    for line in (
        "the row of the token that is read, from which the next one is predicted",
        "river             100.0 %  120 of 120 sentences that no training story has",
        "money              94.2 %  113 of 120 sentences that no training story has",
        "“boat”             75.0 %  head 0.2: 3 of 4 held-out sentences it decides",
        "chance              5.0 %  any content word",
        "      the [bo\\x1bat] bank  rest\n0.3   .50        .25  .20   .05\n0.2   .50        .25  .20   .05\n",
        "embedding        1.000   1.000   1.000    equal          1.000",
        "after layer 0    0.610   0.620   0.500   90.0 %              –",
    ):
        assert line in text


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("view", [AlignmentView(ALIGNMENT), BankView(BANK)], ids=["alignment", "bank"])
def test_nothing_is_wider_than_the_terminal(view: AlignmentView | BankView, width: int):
    assert max(map(len, printed(view, width).splitlines())) <= width


def test_in_colour_the_right_word_is_underlined_and_the_strongest_is_brightest():
    text = printed(AlignmentView(ALIGNMENT), 80, "truecolor")
    assert "[vermelho" not in text
    assert "underlined" in text
    strong, weak = (next(part for part in text.split("\x1b[") if word in part) for word in ("vermelho", "livro"))
    assert "1;4;" in strong and "1;4;" not in weak
    red = [int(part.split("48;2;")[1].split(";")[0]) for part in (strong, weak)]
    assert red[0] > red[1], "from blue to yellow"


def test_as_csv_and_json():
    rows = to_csv(found_table(BANK)).splitlines()
    assert rows[0] == "kind,layer,head,figure,share,found,of"
    assert "decoder_self,0,3,held_out.money,0.9416666666666667,113,120" in rows
    assert rows[-1] == "decoder_self,0,3,chance,0.05,,"
    assert "cross,1,0,reordered,0.5,1,2" in to_csv(found_table(ALIGNMENT)).splitlines()
    assert to_json(BANK)["held_out"]["money"] == {"hits": 113, "count": 120}
