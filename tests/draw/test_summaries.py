"""Datasets, tokens and generated text on a fixed console."""

from dataclasses import replace

from tests.support.consoles import printed
from tfcli.data.view import DatasetView
from tfcli.generation.view import FilledView, GeneratedView
from tfcli.records.dataset import DatasetRecord, Encoding, PartCounts, TokenizerReport
from tfcli.records.generation import Candidate, Filled, Generated
from tfcli.tokenization.view import EncodingView, tokenizer_view


def test_dataset() -> None:
    train, validation = PartCounts(900, 12000, 5, 6, 0), PartCounts(100, 1300, 7, 8, 13)
    record = DatasetRecord("cache/x", "pairs", ("a.tsv",), "hash", "0123456789abcdef", "t", 2048, train, validation)
    assert printed(DatasetView(record)).splitlines() == [
        "Dataset · pairs · prepared",
        "from a.tsv",
        "                    training   validation",
        "pairs                    900          100",
        "tokens                12,000        1,300",
        "target characters          6            8",
        "target bytes               5            7",
        "unknown tokens             0   13 (1.0 %)",
        "split by hash · vocabulary 2,048 · 0123456789ab",
        "cache/x",
    ]
    both = printed(DatasetView(replace(record, only="whole")))
    assert "training" not in both and "split" not in both
    assert "whole\npairs                      100\n" in both


def test_tokens_in_text_order_with_their_ids() -> None:
    encoding = Encoding("The bank\n日本", (464, 3, 198, 70001), ("The", " bank", "\n", "日本"), 1)
    assert printed(EncodingView(encoding)).splitlines() == [
        "The│·bank│⏎  │",
        "464 3     198",
        "日本 │",
        "70001",
        "11 characters, 15 bytes → 4 tokens, 1 of them unknown",
    ]


def test_a_line_feed_ends_its_line_and_its_spellings_do_not() -> None:
    r"""A token of a line feed is ⏎; one of a backslash and an n, and one of the sign ⏎, are what they are."""
    encoding = Encoding("a.\nb\\n⏎c", (1, 2, 3, 4, 5, 6), ("a", ".\n", "b", "\\n", "⏎", "c"), 0)
    assert printed(EncodingView(encoding)).splitlines()[:4] == ["a│.⏎│", "1 2", "b│\\n│⏎│c│", "3 4  5 6"]


def test_tokens_alternate_in_colour() -> None:
    text = printed(EncodingView(Encoding("ab", (1, 2), ("a", "b"), 0)), color="truecolor")
    assert "\x1b[38;2;255;255;255;48;2;31;78;121ma \x1b[0m\x1b[38;2;255;255;255;48;2;91;58;114mb \x1b[0m" in text


def test_tokens_wrap_to_the_width() -> None:
    encoding = Encoding("x" * 50, tuple(range(10, 60)), ("x",) * 50, 0)
    assert len(printed(EncodingView(encoding), 60).splitlines()[0]) == 60  # 20 blocks of two cells and a bar


def test_tokenizer_report() -> None:
    text = printed(tokenizer_view(TokenizerReport("bpe", 2048, "0123456789abcdef", 10, 100, 120, 40, 0)))
    assert "bytes per token   3.00" in text
    assert "nothing was lost" in text and "learned" not in text
    thinned = TokenizerReport("bpe", 2048, "0123456789abcdef", 10, 100, 120, 40, 0, 0.12)
    assert "12.0 %" in printed(tokenizer_view(thinned)).split("learned from")[1]


def test_generated_text_keeps_its_lines_and_loses_its_escapes() -> None:
    text = printed(GeneratedView(Generated("The", " end.\n\x1b[2J", (1, 2), -3.0, (-1.0, -2.0), "end")))
    assert text.splitlines() == ["The end.", "\\x1b[2J", "2 tokens, log-probability -3.00, -1.50 a token"]


def test_a_mask_with_bars() -> None:
    filled = Filled("a <mask>", ((Candidate(" b", 0.75), Candidate("日", 0.125)),), "a b")
    assert printed(FilledView(filled)).splitlines() == [
        "a <mask>",
        "mask 1 of 1",
        f"  ·b   75.0 %  {'█' * 30}",  # .75 of 40 cells
        f"  日   12.5 %  {'█' * 5}",
        "a b",
    ]


def test_masks_that_were_filled_one_after_the_other_say_when() -> None:
    row = (Candidate("b", 0.75),)
    text = printed(FilledView(Filled("<mask> <mask>", (row, row), "b b", order=(1, 0))))
    assert "mask 1 of 2, filled 2nd" in text
    assert "mask 2 of 2, filled 1st" in text


def test_a_manifest_steers_no_terminal() -> None:
    """`split`, `kind` and the reasons of what was left out are texts of a file that anyone may have written."""
    evil = "a\x1b[31m"
    part = PartCounts(900, 12000, 5, 6, 0)
    record = DatasetRecord("cache/x", evil, ("a.tsv",), evil, evil, "t", 2048, part, part, removed={evil: 1})
    shown = printed(DatasetView(record))
    assert "\x1b" not in shown and shown.count(r"a\x1b[31m") == 4
