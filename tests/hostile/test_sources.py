"""Text that is not what its name says: data.md's table of sources, its columns, pairs and validation parts."""

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tests.hostile.harness import TINY, Case, Place, case, check, cut, every, fifo, folder, link, locked, write

LEARN = "tokenize train {} --out t.json"
TRAIN = f"train --data {{}} --out run {TINY}"
PAIRS = "tokenize train {} --pairs --out t.json"


def _table(here: Path, name: str = "a.parquet", **columns: list[object]) -> None:
    pyarrow.parquet.write_table(pa.table(columns), here / name)


def _zst(name: str, content: bytes) -> "object":
    return lambda here: (here / name).write_bytes(pa.compress(content, codec="zstd", asbytes=True))


def _gz(name: str, content: bytes) -> "object":
    return lambda here: (here / name).write_bytes(gzip.compress(content))


def _arrow(here: Path) -> None:
    sink = io.BytesIO()
    table = pa.table({"text": ["one", "two"] * 200})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (here / "a.arrow").write_bytes(sink.getvalue()[:-300])


CASES = [
    case("a file that is not there", LEARN.format("books.txt"), 2, r"'books\.txt'; check the path", sample=True),
    case(
        "a source without a name",
        ["tokenize", "train", "", "--out", "t.json"],
        2,
        r"(''|empty|no source).*; ",
        sample=True,
    ),
    case("a source of blanks", ["tokenize", "train", "   ", "--out", "t.json"], 2, r"' +'|empty.*; "),
    case("no source for a training", ["train", "--data", "", "--out", "run", *TINY.split()], 2, r"--data|source.*; "),
    case(
        "no source for a dataset",
        ["prepare", "", "--tokenizer", "tokenizer.json", "--out", "data"],
        2,
        r"(''|empty|no source).*; ",
    ),
    case("no source to score", ["evaluate", "decoder", ""], 2, r"(''|empty|no source).*; "),
    case("no source to plan for", ["plan", "", "--minutes", "1"], 2, r"(''|empty|no source).*; "),
    case(
        "no source to compare on",
        ["tokenize", "compare", "tokenizer.json", "--on", ""],
        2,
        r"(''|empty|no source|--on).*; ",
    ),
    case("an empty file", LEARN.format("none.txt"), 2, r"none\.txt is empty; ", write("none.txt", ""), sample=True),
    case("a file of blanks alone", LEARN.format("blank.txt"), 2, r"blank\.txt.*; ", write("blank.txt", " \n\t \n")),
    case(
        "a byte that is no UTF-8, in the middle",
        LEARN.format("a.txt"),
        1,
        r"a\.txt.*byte 1004 is 0xff; .*UTF-8",
        write("a.txt", b"text " * 200 + b"and \xff" + b"text"),
    ),
    case(
        "a character cut in two at the end",
        LEARN.format("a.txt"),
        1,
        r"a\.txt.*byte 6 is 0xe2; .*UTF-8",
        write("a.txt", b"price \xe2\x82"),
    ),
    case(
        "UTF-16 with its mark",
        LEARN.format("a.txt"),
        1,
        r"a\.txt.*(0xff|binary|UTF-16).*; .*UTF-8",
        write("a.txt", "a text".encode("utf-16")),
    ),
    case(
        "a surrogate in UTF-8", LEARN.format("a.txt"), 1, r"a\.txt.*0xed; .*UTF-8", write("a.txt", b"a \xed\xa0\x80 b")
    ),
    case("NUL bytes", LEARN.format("a.txt"), 1, r"a\.txt.*(binary|NUL).*; ", write("a.txt", b"one\x00two\x00" * 50)),
    case(
        "a picture called a text",
        LEARN.format("a.txt"),
        1,
        r"a\.txt.*(binary|0x89).*; ",
        write("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(200)),
    ),
    case("a folder called a text", LEARN.format("a.txt"), 2, r"folder a\.txt.*; ", folder("a.txt")),
    case("an empty folder", LEARN.format("books"), 2, r"folder books.*; ", folder("books")),
    case(
        "a file that may not be read",
        LEARN.format("a.txt"),
        2,
        r"a\.txt.*([pP]ermission|readable|may not).*; ",
        write("a.txt", "text"),
        locked("a.txt", 0),
    ),
    case(
        "a file in a folder that may not be entered",
        LEARN.format("shut/a.txt"),
        2,
        r"shut.*; ",
        write("shut/a.txt", "text"),
        locked("shut", 0),
        lambda here: None,
    ),
    case(
        "a pipe that nobody writes to",
        LEARN.format("a.txt"),
        2,
        r"a\.txt.*(pipe|no file|regular).*; ",
        fifo("a.txt"),
        timeout=20,
    ),
    case(
        "a pipe among the files of a pattern",
        "tokenize train '*.txt' --out t.json --json",
        0,
        "",
        write("a.txt", "text"),
        fifo("b.txt"),
        prints=r'"documents": 1\b',
        leaves=("t.json",),
        timeout=20,
    ),
    case("a device without end", LEARN.format("/dev/zero"), 2, r"/dev/zero.*; ", timeout=20),
    case("a device behind a link", LEARN.format("a.txt"), 2, r"a\.txt.*; ", link("a.txt", "/dev/zero"), timeout=20),
    case("a link that leads to itself", LEARN.format("a.txt"), 2, r"a\.txt.*; ", link("a.txt", "a.txt")),
    case("a link that leads nowhere", LEARN.format("a.txt"), 2, r"a\.txt.*; ", link("a.txt", "gone.txt")),
    case("a pattern that matches nothing", LEARN.format("'books/**/*.txt'"), 2, r"books/\*\*/\*\.txt.*; "),
    case(
        "a pattern that matches empty files alone",
        LEARN.format("'*.txt'"),
        2,
        r"\*\.txt.*; ",
        write("a.txt", ""),
        write("b.txt", ""),
    ),
    case(
        "a pattern over a folder that holds itself",
        "tokenize train 'books/**/*.txt' --out t.json --json",
        0,
        "",
        write("books/a.txt", "one two\n"),
        link("books/again", "."),
        link("books/back", "../books"),
        prints=r'"documents": 1\b',
        leaves=("t.json",),
        timeout=20,
    ),
    case(
        "a kind that is not known",
        LEARN.format("a.docx"),
        2,
        r"a\.docx.*\.txt.*; |a\.docx.*; .*\.txt",
        write("a.docx", "text"),
    ),
    case("a name that says nothing", LEARN.format("text"), 2, r"'?text'?.*; ", write("text", "text")),
    case("a corpus that is none", LEARN.format("builtin:wikipedia"), 2, r"builtin:wikipedia.*builtin:stories"),
    case("a corpus without a name", LEARN.format("builtin:"), 2, r"'builtin:'.*builtin:stories.*; "),
    case("a dataset without an owner", LEARN.format("hf:wikitext/"), 2, r"hf:wikitext/.*; "),
    case("a dataset out of its folder", LEARN.format("hf:../../etc"), 2, r"hf:\.\./\.\./etc.*; "),
    case(
        "half a gzip",
        LEARN.format("a.txt.gz"),
        1,
        r"a\.txt\.gz.*(truncated|ends|cut).*; ",
        _gz("a.txt.gz", b"one two three\n" * 4000),
        cut("a.txt.gz"),
    ),
    case(
        "a gzip that is none",
        LEARN.format("a.txt.gz"),
        1,
        r"a\.txt\.gz.*(gzip|\.gz).*; ",
        write("a.txt.gz", "plain text"),
    ),
    case(
        "a gzip with rubbish behind it",
        LEARN.format("a.txt.gz"),
        1,
        r"a\.txt\.gz.*; ",
        lambda here: (here / "a.txt.gz").write_bytes(gzip.compress(b"one two\n") + b"rubbish" * 9),
    ),
    case(
        "a gzip with another checksum",
        LEARN.format("a.txt.gz"),
        1,
        r"a\.txt\.gz.*; ",
        lambda here: (here / "a.txt.gz").write_bytes(gzip.compress(b"one two\n" * 99)[:-8] + b"\1" * 8),
    ),
    case("a gzip of nothing", LEARN.format("a.txt.gz"), 2, r"a\.txt\.gz.*empty.*; ", _gz("a.txt.gz", b"")),
    case(
        "half a zst",
        LEARN.format("a.txt.zst"),
        1,
        r"a\.txt\.zst.*; ",
        _zst("a.txt.zst", bytes(range(32, 127)) * 900),
        cut("a.txt.zst"),
    ),
    case("a zst that is none", LEARN.format("a.txt.zst"), 1, r"a\.txt\.zst.*; ", write("a.txt.zst", "plain text")),
    case(
        "half a parquet",
        LEARN.format("a.parquet"),
        1,
        r"a\.parquet.*; ",
        lambda here: _table(here, text=["one"] * 99),
        cut("a.parquet"),
    ),
    case(
        "a parquet that is none",
        LEARN.format("a.parquet"),
        1,
        r"a\.parquet.*; ",
        write("a.parquet", "PAR1 rubbish PAR1"),
    ),
    case(
        "a parquet without rows",
        LEARN.format("a.parquet"),
        2,
        r"a\.parquet.*(empty|no).*; ",
        lambda here: _table(here, text=[]),
    ),
    case(
        "a parquet of many columns",
        LEARN.format("a.parquet"),
        2,
        r"a\.parquet.*title.*body.*; .*data\.columns",
        lambda here: _table(here, title=["a"], body=["b"], third=["c"]),
    ),
    case(
        "a parquet of numbers",
        LEARN.format("a.parquet"),
        2,
        r"a\.parquet has no column of text; ",
        lambda here: _table(here, text=[1, 2, 3]),
    ),
    case("half an arrow", LEARN.format("a.arrow"), 1, r"a\.arrow.*; ", _arrow),
    case(
        "half a line of JSON",
        LEARN.format("a.jsonl"),
        1,
        r"a\.jsonl.*2.*; ",
        write("a.jsonl", '{"text": "one"}\n{"text": "tw'),
    ),
    case(
        "a line of JSON that is no object",
        LEARN.format("a.jsonl"),
        1,
        r"a\.jsonl.*; ",
        write("a.jsonl", '{"text": "one"}\n["two"]\n'),
    ),
    case(
        "JSON nested a hundred thousand deep",
        LEARN.format("a.jsonl"),
        1,
        r"a\.jsonl.*; ",
        write("a.jsonl", '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n"),
    ),
    case(
        "JSON in which the text is a number",
        LEARN.format("a.jsonl"),
        1,
        r"a\.jsonl.*; ",
        write("a.jsonl", '{"text": "one"}\n{"text": 7}\n'),
    ),
    case(
        "JSON without the column",
        LEARN.format("a.jsonl"),
        2,
        r"a\.jsonl.*(a, b|'a', 'b', 'c').*; ",
        write("a.jsonl", '{"a": "one", "b": "x", "c": "y"}\n'),
    ),
    case(
        "half a character in JSON",
        LEARN.format("a.jsonl"),
        1,
        r"a\.jsonl.*; ",
        write("a.jsonl", '{"text": "T\\ud800"}\n'),
    ),
    case("a table of a header alone", LEARN.format("a.csv"), 2, r"a\.csv.*; ", write("a.csv", "id,text\n")),
    case(
        "a column that the table has not",
        f"train --data a.csv --out run {TINY} --set 'data.columns=[\"body\"]'",
        2,
        r"'body'.*a\.csv.*text|a\.csv.*body.*text",
        write("a.csv", "id,text\n1,one\n2,two\n"),
    ),
    case(
        "two columns for text",
        f'train --data a.csv --out run {TINY} --set \'data.columns=["id", "text"]\'',
        2,
        r"data\.columns.*; ",
        write("a.csv", "id,text\n1,one\n2,two\n"),
    ),
    case(
        "a quote that never ends",
        LEARN.format("a.csv"),
        1,
        r"a\.csv.*; ",
        write("a.csv", 'text\n"one\ntwo\nthree\n' + "more\n" * 5),
    ),
    case(
        "rows of different length",
        LEARN.format("a.csv"),
        1,
        r"a\.csv.*; ",
        write("a.csv", "id,text\n1,one\n2\n3,three,3,3\n"),
    ),
    case(
        "parallel files of unequal length",
        PAIRS.format("a.pt,a.en"),
        1,
        r"a\.pt has 3 lines.*a\.en.*2.*; ",
        write("a.pt", "um\ndois\ntres\n"),
        write("a.en", "one\ntwo\n"),
    ),
    case(
        "parallel files of which one is missing", PAIRS.format("a.pt,a.en"), 2, r"'a\.en'; check", write("a.pt", "um\n")
    ),
    case(
        "parallel files, three of them",
        PAIRS.format("a.txt,b.txt,c.txt"),
        2,
        r"(three|3|two).*; ",
        *(write(f"{n}.txt", "x\n") for n in "abc"),
    ),
    case(
        "pairs with blank sides alone",
        PAIRS.format("a.tsv"),
        2,
        r"a\.tsv.*; ",
        write("a.tsv", "pt\ten\num\t \n\ttwo\n"),
    ),
    case(
        "pairs of three columns",
        PAIRS.format("a.tsv"),
        2,
        r"a\.tsv.*fr.*; ",
        write("a.tsv", "pt\ten\tfr\num\tone\tun\n"),
    ),
    case("pairs out of one file", PAIRS.format("text.txt"), 2, r"text\.txt.*; "),
    case(
        "pairs on stdin without a tab",
        PAIRS.format("-"),
        1,
        r"(?i)line 2 of standard input.*; ",
        stdin=b"um\tone\ndois\n",
    ),
    case("nothing on stdin", LEARN.format("-"), 2, r"(?i)(stdin|standard input).*empty.*; ", sample=True),
    case("no stdin", LEARN.format("-"), 2, r"(?i)(stdin|standard input).*; ", stdin="closed"),
    case(
        "bytes on stdin",
        LEARN.format("-"),
        1,
        r"(?i)(stdin|standard input).*(binary|byte).*; ",
        stdin=bytes(range(256)) * 20,
    ),
    case(
        "a validation part that is the training part",
        "prepare text.txt --tokenizer tokenizer.json --validation text.txt --out data",
        2,
        r"text\.txt.*; ",
    ),
    case(
        "a validation part that is empty",
        "prepare text.txt --tokenizer tokenizer.json --validation none.txt --out data",
        2,
        r"none\.txt is empty; ",
        write("none.txt", ""),
    ),
    case(
        "so little text that nothing is held out",
        TRAIN.format("a.txt"),
        2,
        r"(a\.txt|validation|training).*; ",
        write("a.txt", "x"),
    ),
    case(
        "a share held out of one and a half",
        f"train --data text.txt --out run {TINY} --set data.validation_fraction=1.5",
        2,
        r"data\.validation_fraction = 1\.5.*less than 1",
    ),
    case(
        "no documents at all",
        f"train --data text.txt --out run {TINY} --set data.max_documents=0",
        2,
        r"data\.max_documents = 0.*; ",
    ),
    case("a name with escape sequences", LEARN.format("$'\x1b]0;owned\x07.txt'"), 2, r"\\x1b\]0;owned\\x07\.txt.*; "),
    case(
        "a name with a line break",
        ["tokenize", "train", "two\nlines.txt", "--out", "t.json"],
        2,
        r"two(\\n|⏎)lines\.txt.*; ",
    ),
    case(
        "a file of that name",
        ["tokenize", "train", "two\nlines.txt", "--out", "t.json"],
        1,
        r"two(\\n|⏎)lines\.txt.*0xff",
        write("two\nlines.txt", b"text \xff\n"),
    ),
    case("a name that begins with a dash", "tokenize train -- -books.txt --out t.json", 2, r"--out|; "),
    case(
        "special tokens in the text stay text",
        "tokenize train a.txt --out t.json --json",
        0,
        "",
        write("a.txt", "</s><pad><s> <mask>\x1b[31m\n" * 30),
        prints=r"\{",
        leaves=("t.json",),
    ),
]


@every(CASES)
def test_sources(hostile: Case, place: Place):
    check(place, hostile)
