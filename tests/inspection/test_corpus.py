"""The corpus report: every figure by hand, n-grams against a full count, and the command as it is typed."""

import json
from array import array
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.fakes import FakeTokenizer, as_any
from tfcli.corpora import Kind
from tfcli.inspection.corpus import CorpusReport, Ngram
from tfcli.inspection.corpus.compute import NGramCounter, corpus_report, lengths_of
from tfcli.inspection.corpus.view import CorpusReportView
from tfcli.recipe.data import DataSection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    one, two = ["a cat", "a cat sat", "a cat"], ["é", "a cat", "abcdefgh"]
    for name, texts in (("one", one), ("two", two)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return tmp_path


def report(*files: Path, kind: Kind = "text", **options) -> CorpusReport:
    return corpus_report([str(file) for file in files], kind, DataSection(), **options)


def test_counts_by_hand(folder: Path) -> None:
    made = report(folder / "one.jsonl", folder / "two.jsonl", tokenizer=as_any(FakeTokenizer()), ngram=2)
    # 5 + 9 + 5 and 1 + 5 + 8 characters; é has two bytes. A letter is a token here.
    assert (made.documents, made.characters, made.bytes, made.words, made.tokens) == (6, 33, 34, 11, 33)
    assert made.bytes_per_token == 34 / 33
    # "a cat" stands there three times more than once: twice.
    assert (made.exact, made.exact_bytes, made.near) == (2, 10, None)
    assert [(one.documents, one.bytes, one.tokens, one.share) for one in made.sources] == [
        (3, 19, 19, 19 / 33),
        (3, 15, 14, 14 / 33),
    ]
    assert made.ngrams == (Ngram("a cat", 4),)
    lengths = made.lengths
    assert (lengths.unit, lengths.shortest, lengths.median, lengths.longest) == ("tokens", 1, 5, 9)
    assert sum(one.documents for one in lengths.histogram) == 6


def test_without_a_tokenizer_shares_are_of_bytes_and_lengths_of_characters(folder: Path) -> None:
    made = report(folder / "one.jsonl", folder / "two.jsonl")
    assert (made.tokens, made.bytes_per_token, made.lengths.unit) == (None, None, "characters")
    assert [one.share for one in made.sources] == [19 / 34, 15 / 34]


def test_both_sides_of_a_pair_count(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("source\ttarget\nab\tc\nab\tc\nc\tab\n")
    made = report(tmp_path / "a.tsv", kind="pairs")
    assert (made.documents, made.characters, made.exact, made.lengths.shortest) == (3, 9, 1, 3)


def test_near_duplicates_are_counted_when_asked(tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    text = " ".join(f"word{number}" for number in range(100))
    texts = [text, text, f"{text} more", "something else entirely, of other words"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    made = report(tmp_path / "a.jsonl", near=True)
    assert (made.exact, made.near) == (1, 1)


@given(st.lists(st.integers(1, 300) | st.integers(1, 10**6), min_size=1, max_size=200))
def test_every_document_is_in_one_bar_of_its_length(lengths: list[int]) -> None:
    found = lengths_of(array("Q", lengths), is_tokens=False)
    bins = found.histogram
    for one in bins:
        assert one.documents == sum(one.low <= length <= one.high for length in lengths)
    assert sum(one.documents for one in bins) == len(lengths)
    assert len(bins) <= 21 and [one.low for one in bins[1:]] == [one.high + 1 for one in bins[:-1]]
    ranked = sorted(lengths)
    assert (found.shortest, found.longest) == (ranked[0], ranked[-1])
    assert sum(length <= found.median for length in lengths) * 2 >= len(lengths)


def test_words_of_scripts_without_spaces_are_letters_and_signs_are_none() -> None:
    counter = NGramCounter(2)
    counter.add("猫猫 猫, don't STOP")
    assert {one.text: one.count for one in counter.most_common(9)} == {"猫 猫": 2}


@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=400), st.integers(1, 3), st.integers(2, 30))
def test_forgetting_loses_no_more_than_it_says(words: list[str], size: int, held: int) -> None:
    """The bound of lossy counting: true − error ≤ counted ≤ true, so that what is frequent enough is always there."""
    counter = NGramCounter(size, held)
    true: Counter[str] = Counter()
    for begin in range(0, len(words), 40):
        part = words[begin : begin + 40]
        counter.add(" ".join(part))
        true.update(" ".join(part[place : place + size]) for place in range(len(part) - size + 1))
    counted = {one.text: one.count for one in counter.most_common(10**6)}
    for text, count in true.items():
        assert count - counter.error <= counted.get(text, 0 if count + counter.error > 1 else 1) <= count


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_view_fits_and_says_what_is_there(folder: Path, width: int) -> None:
    lines = printed(CorpusReportView(report(folder / "one.jsonl", folder / "two.jsonl", ngram=2)), width)
    assert max(map(len, lines.splitlines())) <= width
    text = " ".join(lines.split())
    for words in ("6 documents, 11 words, 34 B", "2 exact copies (29.4 % of the bytes)", "--near looks", "4 a cat"):
        assert words in text
    assert "55.9 %" in text


def test_the_command(folder: Path) -> None:
    done = tfcli("data", "report", folder / "one.jsonl", "--json", "--html", folder / "page.html")
    assert done.exit_code == 0, done.stderr
    values = json.loads(done.stdout)
    assert (values["documents"], values["exact"], values["bytes_per_token"]) == (3, 1, None)
    page = (folder / "page.html").read_text()
    assert "Duplicates" in page and "tfcli data report" in page and "<script src" not in page
    assert tfcli("data", "report", folder / "one.jsonl", "--csv").stdout.startswith("low,high,documents\n5,")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nosuch.txt"], "There is no file 'nosuch.txt'"),
        (["one.jsonl", "--set", "data.split=hash"], "data.split"),
        (["one.jsonl", "--set", "train.steps=1"], "'train' says nothing"),
        (["one.jsonl", "--html", "one.jsonl"], "one.jsonl"),
        (["one.jsonl", "--tokenizer", "nosuch.json"], "nosuch.json"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(folder)
    before = (folder / "one.jsonl").read_bytes()
    done = tfcli("data", "report", *arguments)
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert (folder / "one.jsonl").read_bytes() == before
