"""Records that cannot be read, refused or left out and counted; documents between separators; files that change."""

import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import Result

from tests.cli.commands import tfcli
from tests.corpora.helpers import refusal, write
from tfcli.corpora import Kind, Pair, delimited, reading
from tfcli.corpora.open import open_source
from tfcli.corpora.reading import BadRecords, StoredFile, read_texts, stored_file
from tfcli.data import prepare as preparing
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.records.dataset import SkippedRecords


def skipping(names: object, kind: Kind = "text", **options: object) -> tuple[list, SkippedRecords]:
    """What is read of a source, read twice to its end, and what is left out of it."""
    source = open_source([str(names)], kind, on_bad_record="skip", **options)

    def documents() -> list:
        return [one if isinstance(one, Pair) else "".join(one) for one in source.documents()]

    assert documents() == documents()
    return documents(), source.skipped()


LINES = {
    b'{"text": "one"}': None,
    b"[1, 2]": "Line 2 of {} is no JSON object but [1, 2]",
    b'{"text": "half': "Line 3 of {} is not valid JSON",
    b'{"other": "x"}': "Line 4 of {} has no column 'text'",
    b'{"text": 5}': "Line 5 of {} has 5 in the column 'text'",
    b'{"text": "two"}': None,
    b'{"text": "caf\xe9"}': "{} is not valid UTF-8: byte 94 is 0xe9, in line 7",
    b'{"text": "a\0b"}': "{} is binary, not text: byte 109 is 0, in line 8",
    b'{"text": "\\ud800"}': "Line 9 of {} has half a surrogate pair",
}


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.xz"])
def test_bad_lines_are_left_out_counted_once_and_the_first_are_listed(tmp_path, name):
    path = write(tmp_path / name, b"\n".join([*LINES, *[b"7"] * 100]) + b"\n")
    documents, skipped = skipping(path)
    assert documents == ["one", "two"]
    wanted = [sentence.format(path) for sentence in LINES.values() if sentence]
    assert skipped.count == len(wanted) + 100
    assert len(skipped.first) == SkippedRecords.MOST
    for sentence, expected in zip(skipped.first, wanted, strict=False):
        assert sentence.startswith(expected)
    said = list(skipped.lines())
    assert said[0].endswith(": 107 records") and said[-1] == "  … and 102 more"


@pytest.mark.parametrize("line", [line for line, sentence in LINES.items() if sentence])
def test_each_of_them_is_refused_unless_asked_for(tmp_path, line):
    path = write(tmp_path / "a.jsonl", b'{"text": "one"}\n' + line + b"\n")
    assert str(path) in refusal(BrokenInputError, 1, path)


def test_a_bad_first_line_does_not_name_the_columns(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"wrong"\n{"body": "one"}\n')
    assert skipping(path)[0] == ["one"]
    path = write(tmp_path / "a.csv", b"\xff,\xff\nsource,target\nSim.,Yes.\n")
    assert skipping(path, "pairs") == (
        [Pair("Sim.", "Yes.")],
        SkippedRecords(1, (f"{path} is not valid UTF-8: byte 0 is 0xff, in line 1",)),
    )


def test_bad_rows_are_left_out(tmp_path):
    rows = [
        b"text,n",
        b"one,1",
        b"two,2,3",
        b'"three"x,3',
        b'"bro\nken \xff\n",4',  # the record ends where its quote is closed, in a line that can be read
        b"five,5",
    ]
    path = write(tmp_path / "a.csv", b"\n".join(rows) + b'\n"open,6\nseven,7\n')
    documents, skipped = skipping(path, columns=["text"])
    assert documents == ["one", "five"]
    assert [sentence.split(" (")[0] for sentence in skipped.first] == [
        f"Line 3 of {path} has 3 fields, where the first has 2",
        f"Line 4 of {path} is no valid CSV",
        f"{path} is not valid UTF-8: byte 41 is 0xff, in line 6",
        f"Lines 9 to 10 of {path} are no valid CSV",
    ]
    path = write(tmp_path / "a.tsv", b"Sim.\tYes.\nOl\xe1\tHello\none\nN\xc3\xa3o.\tNo.\n")
    documents, skipped = skipping(path, "pairs")
    assert documents == [Pair("Sim.", "Yes."), Pair("Não.", "No.")] and skipped.count == 2


def test_bad_records_of_columns_are_left_out_and_a_broken_file_is_not(tmp_path):
    for number, text in enumerate(["one", "a\ud800"]):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    assert skipping(f"{tmp_path}/*.jsonl")[1].count == 1
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["one", "two"] * 50}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert "truncated" in refusal(BrokenInputError, 1, path, on_bad_record="skip")
    path = write(tmp_path / "a.jsonl.gz", '{"text": "one"}\n' * 5000)
    path.write_bytes(path.read_bytes()[:-20])
    assert "truncated" in refusal(BrokenInputError, 1, path, on_bad_record="skip")


def test_of_two_parallel_files_the_pair_of_a_bad_line_is_left_out(tmp_path):
    write(tmp_path / "a.pt", b"um\nd\xf3is\ntr\xc3\xaas\n")
    write(tmp_path / "a.en", b"one\ntwo\nthree\n")
    documents, skipped = skipping(f"{tmp_path}/a.pt,{tmp_path}/a.en", "pairs")
    assert documents == [Pair("um", "one"), Pair("três", "three")] and skipped.count == 1


def test_a_plain_text_is_a_record_and_left_out_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 7)
    write(tmp_path / "a.txt", "the first text")
    write(tmp_path / "b.txt", b"far into this text a byte is bad: \xff")
    write(tmp_path / "c.txt.gz", "cut").write_bytes(b"\x1f\x8b")
    documents, skipped = skipping(f"{tmp_path}/*.txt*")
    assert documents == ["the first text"] and skipped.count == 2


def test_a_line_that_never_ends_is_left_out(tmp_path, monkeypatch):
    for module in (reading, delimited):
        monkeypatch.setattr(module, "LONGEST", 50)
    monkeypatch.setattr(reading, "CHUNK", 7)
    line = json.dumps({"text": "x" * 500})
    documents, skipped = skipping(
        write(tmp_path / "a.jsonl", f'{line}\n{{"text": "one"}}\n{line}\n{{"text": "\xe9"}}\n{line}')
    )
    assert documents == ["one", "é"] and skipped.count == 3
    assert "byte 2067" in refusal(BrokenInputError, 1, write(tmp_path / "b.tsv", b"a\n" * 1033 + b"b\xff"))


def test_a_source_of_bad_records_alone_says_what_is_wrong(tmp_path):
    path = write(tmp_path / "a.jsonl", "1\n2\n")
    wanted = f"There is no record in {path} that can be read: Line 1 of {path} is no JSON object"
    assert wanted in refusal(UsageError, 2, path, on_bad_record="skip")
    path = write(tmp_path / "a.txt", b"\xff")
    wanted = f"There is no text in {path} that can be read: {path} is not valid UTF-8: byte 0 is 0xff"
    assert wanted in refusal(UsageError, 2, path, on_bad_record="skip")


def test_what_is_left_out_is_in_the_fingerprint_and_nothing_else_changes(tmp_path):
    path = str(write(tmp_path / "a.txt", "one\n\ntwo"))
    ways = [{}, {"on_bad_record": "refuse", "separator": None}, {"on_bad_record": "skip"}, {"separator": "\n\n"}]
    prints = [open_source(path, "text", **way).fingerprint() for way in ways]
    assert prints[0] == prints[1] and len(set(prints)) == 3
    assert prints[0] == "5ee45c8fd4ce70e5"


def between(path: Path, separator: str) -> list[str]:
    return [str(text) for text in read_texts(stored_file(path), separator, BadRecords(skips=False))]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("compression", ["", ".bz2"])
def test_a_text_is_cut_at_its_separator(tmp_path, monkeypatch, chunk, compression):
    monkeypatch.setattr(reading, "CHUNK", chunk)
    marked = write(tmp_path / f"a.txt{compression}", "\ufeffone <|end|>two\n<|end|>\r\n  three\n\nfour<|en<|end|>\n")
    assert between(marked, "<|end|>") == ["one ", "two", "  three\n\nfour<|en", ""]
    blank = write(tmp_path / f"b.md{compression}", "one\nmore\n\n  two\r\n\r\nthree\n \t\n\n\n\nfour\n")
    assert [text for text in between(blank, "blank line") if text] == ["one\nmore", "  two", "three", "four"]


WORDS = st.text(st.sampled_from("ab é日\n-="), max_size=12).filter(lambda text: text == text.strip("\n"))


@given(st.lists(WORDS, min_size=1, max_size=8), st.sampled_from(["-=-", "=", "<|end|>"]), st.integers(1, 40))
def test_what_is_joined_by_a_separator_is_divided_by_it(tmp_path_factory, documents, separator, chunk):
    documents = [text.replace(separator, "") for text in documents]
    joined = separator.join(documents)
    path = write(tmp_path_factory.mktemp("a") / "a.txt", joined)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK", chunk)
        assert between(path, separator) == [re.sub(r"\A\n|\n\Z", "", text) for text in joined.split(separator)]


def test_a_bad_document_has_its_place_and_can_be_left_out(tmp_path):
    path = write(tmp_path / "a.txt", b"one\n\ntwo\nb\xe9\n\nthree\n")
    assert "byte 10 is 0xe9, in line 4" in refusal(BrokenInputError, 1, path, separator="blank line")
    documents, skipped = skipping(path, separator="blank line")
    assert documents == ["one", "three"] and skipped.count == 1


def test_a_text_without_its_separator_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 1000)
    monkeypatch.setattr(reading, "CHUNK", 100)
    path = write(tmp_path / "a.txt", "one\n---\n" + "two\n" * 1000)
    sentence = refusal(TfcliError, 1, path, separator="---")
    assert f"{path} has more than 1,000 bytes without '---', from line 2 on" in sentence


def changed(file: StoredFile, how: str) -> None:
    if how == "grown":
        file.path.write_bytes(file.path.read_bytes() + b'{"text": "more"}\n')
    elif how == "cut":
        file.path.write_bytes(file.path.read_bytes()[:-8])
    elif how == "touched":
        os.utime(file.path, ns=(0, 0))
    else:
        file.path.unlink()


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.parquet", "a.jsonl.gz"])
@pytest.mark.parametrize("how", ["grown", "cut", "touched", "gone"])
@pytest.mark.parametrize("on_bad_record", ["refuse", "skip"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, name, how, on_bad_record):
    lines = [f'{{"text": "{number}"}}\n' for number in range(300_000)]
    path = write(tmp_path / name, "".join(lines))
    if name == "a.parquet":
        pyarrow.parquet.write_table(pa.table({"text": lines}), path)
    source = open_source(str(path), "text", on_bad_record=on_bad_record)
    documents: Iterator = source.documents()
    first = next(documents)
    changed(stored_file(path), how)
    with pytest.raises(TfcliError, match=f"{name} has changed while it was read: ") as caught:
        list(chain(first, documents))
    assert type(caught.value) is TfcliError
    with pytest.raises(TfcliError, match="has changed"):
        source.require_unchanged()
    if how != "gone":
        with pytest.raises(TfcliError, match="has changed"):
            source.fingerprint()


@pytest.fixture
def told(tmp_path) -> Path:
    """A tokenizer, and a table with a bad record among good ones."""
    lines = [json.dumps({"text": f"text number {number} of them"}) for number in range(300)]
    lines[7] = "[1, 2]"
    write(tmp_path / "a.jsonl", "\n".join(lines) + "\n")
    made = tfcli("tokenize", "train", tmp_path / "a.jsonl", "--vocab-size", "300", "--on-bad-record", "skip",
                 "--out", tmp_path / "t.json", "--json")  # fmt: skip
    assert json.loads(made.stdout)["skipped"]["count"] == 1
    return tmp_path


def prepare(told: Path, out: str, *more: str) -> Result:
    return tfcli("prepare", told / "a.jsonl", "--tokenizer", told / "t.json", "--out", told / out, *more)


def test_prepare_refuses_or_says_what_it_left_out_with_workers_and_shares_too(told):
    refused = prepare(told, "no")
    assert refused.exit_code == 1 and "Line 8 of" in refused.stderr and "Traceback" not in refused.stderr
    assert not [*told.glob("*no*")] and refused.stdout == ""
    skip = ("--on-bad-record", "skip")
    one, two = (prepare(told, out, *skip, *more) for out, more in [("one", ()), ("two", ("--workers", "2", "--json"))])
    assert "cannot be read: 1 record" in one.stdout and "Line 8 of" in one.stdout.replace("\n", " ")
    assert json.loads(two.stdout)["skipped"]["count"] == 1
    for number in (1, 2):
        assert prepare(told, f"share{number}", *skip, "--shard", f"{number}/2").exit_code == 0
    merged = tfcli("prepare", told / "share1", told / "share2", "--merge", "--out", told / "merged", "--json")
    assert json.loads(merged.stdout)["skipped"]["count"] == 1
    manifests = [(told / name / "manifest.json").read_bytes() for name in ("one", "two", "merged")]
    assert manifests[0] == manifests[1] == manifests[2]
    assert prepare(told, "one").exit_code == 1  # which refuses, and does not take what is there


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_that_changes_while_it_is_prepared_leaves_no_dataset(told, monkeypatch, workers):
    name = "encode_share" if workers == "1" else "encode_by_workers"
    encode = getattr(preparing, name)

    def encode_and_change(*arguments: object, **named: object) -> object:
        done = encode(*arguments, **named)
        write(told / "a.jsonl", '{"text": "other"}\n')
        return done

    monkeypatch.setattr(preparing, name, encode_and_change)
    refused = prepare(told, "no", "--on-bad-record", "skip", "--workers", workers)
    assert refused.exit_code == 1 and "a.jsonl has changed while it was read: it had " in refused.stderr
    assert not [*told.glob("*no*")]
