"""Tokenizers side by side on a fixed console."""

from dataclasses import replace

from tests.support.consoles import printed
from tfcli.bench import Spread
from tfcli.records.dataset import TokenizerComparison, TokenizerQuality
from tfcli.tokenization.view import TokenizerComparisonView

BPE = TokenizerQuality(
    name="bpe.json",
    algorithm="bpe",
    vocab_size=1000,
    fingerprint="0123456789abcdef",
    tokens=7216,
    unknown=0,
    bytes_per_token=1.494,
    characters_per_token=1.47,
    fertility=4.395,
    whole_words=0.285,
    single_characters=0.728,
    unknown_rate=0.0,
    vocabulary_use=0.362,
    renyi_efficiency=0.4786,
    round_trip=1.0,
    megabytes_per_second=Spread(2.4, 2.55, 2.6),
)
WORD = replace(
    BPE,
    name="runs/a\x1b[2J/long/long/folder/word.json",
    algorithm="word",
    unknown=2430,
    unknown_rate=0.753,
    bytes_per_token=3.34,
    whole_words=0.26,
    round_trip=0.0,
    megabytes_per_second=Spread(2.55, 4.17, 4.3),
)
COMPARED = TokenizerComparison("book.txt", 1, 10610, 10786, 1642, 10786, 5, (BPE, WORD))


def test_one_table_where_there_is_room():
    lines = printed(TokenizerComparisonView(COMPARED), 140).splitlines()
    assert lines[:6] == [
        "2 tokenizers on book.txt",
        "1 document, 1,642 words, 10,610 characters, 10,786 bytes",
        "",
        "tokenizer                     kind    ids  tokens  B/token   chars  fertility   whole   singles  unknown"
        "     used  Rényi    exact   MB/s",
        "bpe.json                       bpe  1,000  7.22 k     1.49*   1.47       4.39  28.5 %*   72.8 %    0.0 %*"
        "  36.2 %  0.479  100.0 %*  2.55",
        "…/long/long/folder/word.json  word  1,000  7.22 k     3.34    1.47       4.39  26.0 %    72.8 %   75.3 % "
        "  36.2 %  0.479    0.0 %   4.17",
    ]


def test_at_eighty_columns_it_is_two_tables_with_every_figure_once():
    lines = printed(TokenizerComparisonView(COMPARED)).splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line for line in lines if line.startswith("tokenizer ")]
    assert len(headings) == 2
    assert " ".join(headings).split().count("MB/s") == 1
    assert sum(line.startswith("bpe.json") for line in lines) == 2


def test_what_loses_text_is_not_the_shortest():
    """3.34 bytes a token with unknown ones stand behind 1.49 with none; without the unknown they lead."""
    honest = replace(COMPARED, tokenizers=(BPE, replace(WORD, unknown=0)))
    assert "1.49*" in printed(TokenizerComparisonView(COMPARED), 140)
    assert "3.34*" in printed(TokenizerComparisonView(honest), 140)


def test_speeds_that_overlap_have_no_best():
    """2.55 to 4.3 against 2.4 to 2.6 overlap; 2.7 to 4.3 do not."""
    clear = replace(WORD, megabytes_per_second=Spread(2.7, 4.17, 4.3))
    assert "4.17*" not in printed(TokenizerComparisonView(COMPARED), 140)
    assert "4.17*" in printed(TokenizerComparisonView(replace(COMPARED, tokenizers=(BPE, clear))), 140)


def test_equals_and_a_single_one_have_no_best():
    for rows in ((BPE,), (BPE, BPE)):
        lines = printed(TokenizerComparisonView(replace(COMPARED, tokenizers=rows)), 140).splitlines()
        assert not any("*" in line for line in lines if line.startswith("bpe.json"))
