"""A text coloured by token, and a row a token."""

import re
from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv, to_json
from tfcli.inspection.embeddings import TokenRow, TokensRecord
from tfcli.inspection.embeddings.view import TokensView, tokens_table

RECORD = TokensRecord(
    run="runs/e",
    algorithm="word",
    vocab_size=580,
    d_model=64,
    scale=8.0,
    context=32,
    text="Tom zzz",
    characters=7,
    bytes=7,
    words=2,
    tokens=(
        TokenRow(0, 1, "<s>", "special", None, None, 0, 10.0, 1.0),
        TokenRow(1, 200, "Tom", "text", 0, 3, 3, 5.0, 1.5),
        TokenRow(2, 4, "<unk>", "unknown", 4, 7, 3, 2.5, 2.0),
    ),
)


def test_the_page_at_80_columns():
    """Bars are 13 cells for the longest: half and a quarter of that for those half and a quarter as long."""
    assert printed(TokensView(RECORD), 80).splitlines() == [
        "From text to vectors · runs/e · word, 580 tokens",
        "<s>│Tom│<unk>│",
        "",
        "pos   id  token  characters  bytes  kind          ‖e‖                 ‖p‖",
        "  0    1  <s>                       special        10  █████████████    1",
        "  1  200  Tom           0–3      3                  5  ██████▌        1.5",
        "  2    4  <unk>         4–7      3  unknown: zzz  2.5  ███▎             2",
        "‖e‖: length of the token's row of E, 64 numbers times 8; ‖p‖ of the vector its",
        "position adds",
        "The same text in other pieces",
        "words       2  between white space; each would need a row of E",
        "tokens      2  1.00 tokens a word (fertility), 3.50 bytes a token",
        "characters  7",
        "bytes       7  UTF-8; 256 rows of E would do",
        "3 of 32 positions are read, 1 special: each head compares 9 pairs",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int):
    long = replace(RECORD, tokens=RECORD.tokens * 30 + (replace(RECORD.tokens[1], token="日" * 100),))
    assert all(len(line) <= width for line in printed(TokensView(long), width).splitlines())


def test_kinds_of_token_differ_in_colour():
    painted = printed(TokensView(RECORD), 80, "truecolor").splitlines()[1]
    assert re.findall(r"48;2;(\d+;\d+;\d+)", painted) == ["77;77;77", "91;58;114", "161;29;29"]


def test_csv_and_json():
    assert to_csv(tokens_table(RECORD)).splitlines()[1] == "0,1,<s>,special,,,0,10.0,1.0,1"
    told = to_json(RECORD)
    assert (told["fertility"], told["bytes_per_token"], told["tokens"][2]["role"]) == (1.0, 3.5, "unknown")
