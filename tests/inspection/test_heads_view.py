"""Which head does what, as text at three widths, in colour, and as CSV."""

import shlex
from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv
from tfcli.inspection.heads import NO_ROLE, HeadExample, HeadsRecord, HeadStatistics, RoleShare
from tfcli.inspection.heads.view import SORT_KEYS, HeadsView, commands, heads_table, ranked

COMMA = ((",", 0.25), (" the", 0.2), ("\x1b", 0.1))
WENT = HeadExample("Tom ran. So he went home.", None, (15, 19), (12, 14), 0.97, "So he went home.", None)
SHARE = RoleShare("who acts", 0.71, 0.69, 0.73, 0.04, 900, 0.93)
FIRST = RoleShare("first token", 0.35, 0.3, 0.4, 0.05, 990, 1.0)
WHO = HeadStatistics(
    *("decoder_self", 0, 1, "who acts", (), SHARE, "first token", (FIRST, SHARE)),
    *(0.25, 0.125, 0.9, 1.5, 0.01, 0.02, 0.05, None, COMMA, ((" went", " he"),), WENT),
)
SOME = replace(
    WHO, head=2, at=(" the", " a", " my", " to", " of"), does=replace(SHARE, share=0.41, coverage=0.15), beside=None
)
CONTENT = HeadStatistics(
    *("decoder_self", 1, 0, NO_ROLE, (), None, None, (FIRST,)),
    *(1.5, 0.5, 0.4, 12.25, 0.2, 0.0, 0.05, None, COMMA, ((" to", " he"), (".", "\n")), WENT),
)
ALIGNED = RoleShare("aligned word", 0.88, None, None, 0.1, 20, 1.0)
BOOK = HeadExample("<s>The book", "O livro caiu", (3, 6), (2, 7), 0.8, "O livro caiu", "The book's")
CROSS = HeadStatistics(
    *("cross", 0, 0, "aligned word", (), ALIGNED, None, (ALIGNED,)),
    *(0.5, 0.2, 0.9, None, None, None, None, 1.0, COMMA, (), BOOK),
)
RECORD = HeadsRecord("my run", "9 of 10 documents of x.txt", 9, True, 12, 15, 4, "bank", (CONTENT, SOME, WHO, CROSS))


def test_every_head_says_its_role_beside_chance_and_its_best_sentence():
    assert printed(HeadsView(RECORD), 80).splitlines()[:21] == [
        "Attention heads · which does what · clearest roles first",
        "4 heads, measured on 9 of 10 documents of x.txt, 12 tokens; roles were chosen on",
        "one half of them and measured on the other",
        "",
        "decoder self-attention",
        "0.1   mostly the word that says who acts 71 % (69 to 73 %), by chance 4 % ·",
        "      rests on the first token 35 %",
        "      Tom ran. So [he] «went» home.  .97",
        "0.2   often the word that says who acts 41 % (69 to 73 %), by chance 4 % · from",
        "      “the”, “a”, “my”, “to” and 1 more: 15 % of the tokens",
        "      Tom ran. So [he] «went» home.  .97",
        "1.0   no clear role: by content, 40 % on one token (entropy 50 % of the",
        "      largest); most goes to “,” 25 %, “the” 20 %, “\\x1b” 10 %; mainly from “to”",
        "      to “he”, from “.” to “⏎”",
        "      Tom ran. So [he] «went» home.  .97",
        "",
        "cross-attention",
        "0.0   mostly the source word of the word that comes next 88 %, by chance 10 %",
        "      O [livro] caiu ← <s>«The» book  .80",
        "",
        "layer.head, both from 0; «from here» it looks [there], with that weight",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal_and_no_word_is_lost(width: int):
    text = printed(HeadsView(RECORD), width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "mostly the source word of the word that comes next 88 %, by chance 10 %" in words
    assert "from “the”, “a”, “my”, “to” and 1 more: 15 % of the tokens" in words


def test_every_column_that_is_shown_is_explained():
    wide = printed(HeadsView(RECORD), 140)
    for heading in ("1st", "algn", "ind", "dup", "ord", "max", "even", "H", "dist"):
        assert f"\n{heading.ljust(5)}" in wide
    assert "\nnext" not in wide, "no head of these can look ahead"
    assert "4 sequences of n = 15 random tokens" in wide


def test_the_commands_are_words_of_a_shell():
    see, find = commands(RECORD, ["--checkpoint", "last"])
    assert find == "Which head tells the banks apart: tfcli inspect heads 'my run' --find bank --checkpoint last"
    target = ["--target=The book's", "--kind", "cross", "--checkpoint", "last", "--", "my run", "O livro caiu"]
    place = ["tfcli", "inspect", "attention", "--head", "0.0"]
    assert shlex.split(see.removeprefix("See 0.0: ")) == [*place, *target]
    [alone] = commands(replace(RECORD, heads=(SOME, WHO), finder=None))
    assert alone == "See 0.1: tfcli inspect attention --head 0.1 -- 'my run' 'So he went home.'"


def test_what_is_far_between_is_left_out():
    far = replace(WENT, text=f"Tom {'x ' * 99}ran.", query=(202, 205), key=(0, 3))
    line = next(
        line
        for line in printed(HeadsView(replace(RECORD, heads=(replace(WHO, example=far),))), 140).splitlines()
        if "[Tom]" in line
    )
    assert line.split() == ["[Tom]", *["x"] * 22, "…", *["x"] * 22, "«ran».", ".97"]


def test_a_token_that_looks_at_itself_is_marked_once():
    itself = replace(WHO, example=replace(WENT, query=(12, 14)))
    assert "So «[he]» went" in printed(HeadsView(replace(RECORD, heads=(itself,))), 80)


def test_colour_is_that_of_the_share_and_a_scale_says_so():
    colored = printed(HeadsView(RECORD), 80, "truecolor")
    assert "share of attention" in colored
    strong, weak = (next(part for part in colored.split("\x1b[") if part.endswith(f"m {n}")) for n in (".90", ".02"))
    red = [int(part.split("48;2;")[1].split(";")[0]) for part in (strong, weak)]
    assert red[0] > red[1], "from blue to yellow"
    assert "share of attention" not in printed(HeadsView(RECORD), 80)


def test_heads_are_ranked_by_any_figure_and_stand_in_place_by_layer():
    heads = (CONTENT, SOME, WHO)
    assert ranked(heads, "role") == [WHO, SOME, CONTENT], "at all tokens, at some, at none"
    assert ranked(heads, "entropy")[0] == CONTENT
    assert ranked(heads, "layer") == [WHO, SOME, CONTENT]
    assert ranked(heads, "next") == [CONTENT, SOME, WHO], "what none has changes nothing"
    for key in SORT_KEYS:
        assert len(ranked(heads, key)) == 3


def test_as_csv_an_absent_figure_is_an_empty_cell():
    heading, first, second, *_ = to_csv(heads_table(RECORD)).splitlines()
    assert heading.startswith("kind,layer,head,role,share,low,high,chance,coverage,previous,next,first,itself,same,")
    assert first.startswith(f"decoder_self,1,0,{NO_ROLE},,,,,,,,0.35,,")
    assert second.startswith("decoder_self,0,2,who acts,0.41,0.69,0.73,0.04,0.15,")
