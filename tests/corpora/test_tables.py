"""CSV, TSV, JSON lines, Parquet and Arrow: texts as they are written, columns found or asked for."""

import csv
import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpora.helpers import read, refusal, write
from tfcli.corpora import Pair
from tfcli.corpora.open import open_source
from tfcli.errors import BrokenInputError, UsageError

COMPRESSIONS = ["", ".gz", ".zst"]
# Texts that a reader which guesses types changes: missing values, numbers, dates, quotes, line endings.
TREACHEROUS = [
    "NA",
    "null",
    "1",
    "01.50",
    "2020-01-01",
    'say "hi", then go',
    "a\r\nb",
    " spaced ",
    "true",
    "é\u2028x",
]


def columnar_bytes(suffix: str, table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, sink, row_group_size=3)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def csv_text(rows: list[list[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".arrow"])
def test_every_format_keeps_the_text_of_every_record(tmp_path, suffix, compression):
    if suffix == ".jsonl":
        content = "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in TREACHEROUS).encode()
    elif suffix == ".csv":
        content = csv_text([["id", "text"], *(["1", text] for text in TREACHEROUS)]).encode()
    else:
        content = columnar_bytes(suffix, pa.table({"id": range(len(TREACHEROUS)), "text": TREACHEROUS}))
    assert read(write(tmp_path / f"a{suffix}{compression}", content)) == TREACHEROUS


def test_an_arrow_file_with_a_footer_is_read_like_a_stream(tmp_path):
    table = pa.table({"text": ["a", "b"]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert read(tmp_path / "a.arrow") == ["a", "b"]


def test_a_columnar_file_with_brackets_in_its_name_leaves_nothing_in_the_cache(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    path = write(tmp_path / "a[1]*.parquet", columnar_bytes(".parquet", pa.table({"text": ["a"]})))
    assert read(path) == ["a"]
    assert not (tmp_path / "cache").exists()


def test_tsv_fields_are_literal(tmp_path):
    path = write(tmp_path / "a.tsv", 'pt\ten\n"Olá\t "Hi" \r\n\nNA\tnull\n')
    assert read(path, "pairs") == [Pair('"Olá', ' "Hi" '), Pair("NA", "null")]


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1), min_size=1))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_and_jsonl_give_back_any_text(tmp_path, texts):
    expected = [text for text in texts if not text.isspace()]
    for suffix, content in [
        (".csv", csv_text([["text"], *([text] for text in texts)])),
        (".jsonl", "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)),
    ]:
        path = write(tmp_path / f"a{suffix}", content)
        if expected:
            assert read(path) == expected
        else:
            assert "no text" in refusal(UsageError, 2, path)


def test_a_field_of_a_csv_can_be_a_long_document(tmp_path):
    assert read(write(tmp_path / "a.csv", "text\n" + "x" * 300_000)) == ["x" * 300_000]


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        ("pt\ten", True),
        ("source_text\ttarget-text", True),
        ("Olá!\tHello!", False),
        ("bom dia\tgood morning", False),
        ("não\tno", False),
        ("Oi.\tHi.", False),
        ("translation.pt\ttranslation.en", True),
        ("en\ten", False),
        ("1\t2", False),
    ],
)
def test_the_first_row_is_a_header_when_its_cells_are_plain_names(tmp_path, first, is_header):
    pairs = read(write(tmp_path / "a.tsv", f"{first}\nsim.\tyes.\n"), "pairs")
    record = [] if is_header else [Pair(*first.split("\t"))]
    assert pairs == [*record, Pair("sim.", "yes.")]


def test_names_of_columns_make_the_first_row_a_header_and_numbers_say_nothing(tmp_path):
    words = write(tmp_path / "words.tsv", "dog\tcan\ncat\tgat\n")
    assert read(words, "pairs") == [Pair("dog", "can"), Pair("cat", "gat")]
    assert read(words, "pairs", columns=["dog", "can"]) == [Pair("cat", "gat")]
    assert read(words, "pairs", columns=["2", "1"]) == [Pair("can", "dog"), Pair("gat", "cat")]
    assert read(words, "pairs", columns=["2", "1"], header=True) == [Pair("gat", "cat")]
    named = write(tmp_path / "named.csv", "o texto,n\nbom,1\n")
    assert read(named, columns=["o texto"]) == ["bom"]
    assert read(named, columns=["1"]) == ["bom"]
    assert read(named, columns=["1"], header=False) == ["o texto", "bom"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_obvious_columns_are_found_and_others_can_be_chosen(tmp_path, suffix):
    def table(name: str, **values: str):
        if suffix == ".jsonl":
            return write(tmp_path / f"{name}{suffix}", json.dumps(values))
        return write(tmp_path / f"{name}{suffix}", ",".join(values) + "\n" + ",".join(values.values()))

    assert read(table("only", body="b")) == ["b"]
    assert read(table("named", title="a", text="b")) == ["b"]
    assert read(table("two", en="a", pt="b"), "pairs") == [Pair("a", "b")]
    assert read(table("more", id="i", target="a", source="b"), "pairs") == [Pair("b", "a")]
    path = table("unclear", title="a", body="b", note="c")
    assert read(path, columns=["note"]) == ["c"]
    assert read(path, "pairs", columns=["note", "title"]) == [Pair("c", "a")]
    for kind in ("text", "pairs"):
        sentence = refusal(UsageError, 2, path, kind)
        assert f"{path} has the columns 'title', 'body', 'note'" in sentence
        assert "data.columns=" in sentence


def test_a_column_inside_a_column_is_named_with_a_dot(tmp_path):
    record = {"id": 7, "translation": {"de": "Ja.", "en": "Yes."}}
    path = write(tmp_path / "a.jsonl", json.dumps(record))
    assert read(path, "pairs") == [Pair("Ja.", "Yes.")]
    table = pa.table({name: [value] for name, value in record.items()})
    path = write(tmp_path / "a.parquet", columnar_bytes(".parquet", table))
    assert read(path, "pairs", columns=["translation.en", "translation.de"]) == [Pair("Yes.", "Ja.")]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_missing_value_is_no_text_and_is_counted_where_it_is_left_out(tmp_path, suffix):
    values = ["a", None, "b", " ", None]
    if suffix == ".jsonl":
        content = "".join(json.dumps({"text": value}) + "\n" for value in values).encode()
    else:
        content = columnar_bytes(suffix, pa.table({"text": values}))
    path = write(tmp_path / f"a{suffix}", content)
    sentence = refusal(BrokenInputError, 1, path)
    assert f"2 of {path} has null in the column 'text', which is not text" in sentence
    assert "data.on_bad_record=skip" in sentence
    source = open_source(str(path), "text", on_bad_record="skip")
    assert list(source.documents()) == ["a", "b"] and source.skipped().count == 2
    before = open_source(str(path), "text", as_before=True)  # what earlier runs were trained on
    assert list(before.documents()) == ["a", "b"] and before.skipped().count == 0


def test_one_column_where_two_are_needed_is_refused(tmp_path):
    for name, content in [
        ("a.tsv", "Just one.\n"),
        ("a.csv", "text\nJust one.\n"),
        ("a.jsonl", '{"text": "a", "n": 1}'),
    ]:
        path = write(tmp_path / name, content)
        sentence = refusal(UsageError, 2, path, "pairs")
        assert f"{path} has only one column of text" in sentence and "two" in sentence


def test_an_unknown_column_is_refused_with_the_nearest(tmp_path):
    path = write(tmp_path / "a.csv", "title,content\na,b\n")
    sentence = refusal(UsageError, 2, path, columns=["contents"])
    assert f"{path} has no column of text 'contents'" in sentence
    assert "perhaps 'content' was meant" in sentence


@pytest.mark.parametrize(("kind", "columns"), [("text", ["a", "b"]), ("pairs", ["a"]), ("text", [])])
def test_the_wrong_number_of_columns_is_refused(tmp_path, kind, columns):
    path = write(tmp_path / "a.csv", "a,b\nx,y\n")
    assert f"data.columns is {json.dumps(columns)}" in refusal(UsageError, 2, path, kind, columns=columns)


def test_a_table_without_text_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"n": 1}')
    assert f"{path} has no column of text" in refusal(UsageError, 2, path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_header_alone_is_no_text(tmp_path, suffix):
    path = write(tmp_path / f"a{suffix}", "text\n")
    assert f"no text in {path}" in refusal(UsageError, 2, path)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.jsonl", '{"text": "a"}\n\n{"text": "b"\n', "Line 3 of {} is not valid JSON"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', 'Line 2 of {} is no JSON object but ["b"]'),
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "Line 2 of {} has no column 'text'"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": 5}\n',
            "Line 2 of {} has 5 in the column 'text', which is not text",
        ),
        ("a.jsonl", '{"text": "a"}\n{"text": "\\ud83d"}\n', "Line 2 of {} has half a surrogate pair, U+D83D"),
        ("a.csv", 'text\nfine\n"never closed\n', "Line 3 of {} is no valid CSV"),
        ("a.csv", "text,n\na,1\na,b,2\n", "Line 3 of {} has 3 fields, where the first has 2"),
        ("a.tsv", "text\tn\na\t1\nb\n", "Line 3 of {} has 1 fields, where the first has 2"),
    ],
)
def test_a_malformed_record_is_refused_with_its_line(tmp_path, name, content, what):
    path = write(tmp_path / name, content)
    assert what.format(path) in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_a_truncated_compression_of_a_columnar_file_is_refused(tmp_path, compression):
    table = pa.table({"text": [str(n**9) for n in range(2000)]})
    path = write(tmp_path / f"a.parquet{compression}", columnar_bytes(".parquet", table))
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path} is truncated: it ends inside" in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_a_truncated_or_foreign_columnar_file_is_refused(tmp_path, suffix, compression):
    whole = columnar_bytes(suffix, pa.table({"text": [str(n) * 50 for n in range(200)]}))
    for content in (whole[: len(whole) // 2], b"text, not a table"):
        path = write(tmp_path / f"a{suffix}{compression}", content)
        assert f"{path} is truncated or is no {suffix} file" in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize("name", ["text", "note"])
def test_only_the_columns_that_are_asked_for_must_be_right(tmp_path, name):
    good, bad = pa.array(["a", "b"]), pa.array([b"a", b"\xff"]).cast(pa.string(), safe=False)
    path = write(tmp_path / "a.arrow", columnar_bytes(".arrow", pa.table({"text": good, "note": bad})))
    if name == "text":
        assert read(path, columns=[name]) == ["a", "b"]
    else:
        assert "Invalid UTF8" in refusal(BrokenInputError, 1, path, columns=[name])


def test_the_library_that_reads_tables_writes_nothing_to_the_terminal(tmp_path):
    path = write(tmp_path / "a.parquet", "text, not a table")
    program = f"""
from tfcli.corpora.open import open_source
from tfcli.errors import BrokenInputError
try:
    open_source({str(path)!r}, "text")
except BrokenInputError:
    print("refused")
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (finished.stdout, finished.stderr) == ("refused\n", "")
