"""Text files, globs, parallel files and standard input: read exactly, refused in one sentence."""

import gzip
import io
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import tfcli.corpora.delimited
import tfcli.corpora.reading
from tests.corpora.helpers import read, refusal, write
from tfcli.corpora import LongText, Pair, is_blank, pieces
from tfcli.corpora.open import open_source
from tfcli.corpora.reading import Spool, standard_input
from tfcli.corpora.split import open_split
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.recipe.data import DataSection

COMPRESSIONS = ["", ".gz", ".zst", ".bz2", ".xz"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("suffix", [".txt", ".md", ".TXT"])
def test_a_text_file_is_one_document_with_its_line_endings(tmp_path, suffix, compression):
    text = "One.\r\nTwo.\rThree.\n\n  Olá \u2028 \x0b fim  "
    assert read(write(tmp_path / f"a{suffix}{compression}", text)) == [text]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_byte_order_mark_is_dropped_and_only_at_the_beginning(tmp_path, compression):
    path = write(tmp_path / f"a.txt{compression}", b"\xef\xbb\xbfa\xef\xbb\xbfb")
    assert read(path) == ["a\ufeffb"]


def test_a_byte_order_mark_inside_a_file_of_lines_is_text(tmp_path):
    path = write(tmp_path / "a.tsv", "\ufeffone.\ttwo.\n\ufeffthree.\tfour.\n")
    assert read(path, "pairs") == [Pair("one.", "two."), Pair("\ufeffthree.", "four.")]


def test_compressed_parts_put_one_after_the_other_are_read_to_the_end(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"first ") + gzip.compress(b"second"))
    assert read(path) == ["first second"]


def test_a_glob_reads_files_in_the_order_of_their_names_at_any_depth(tmp_path):
    for name, text in [
        ("b.txt", "second"),
        ("a/x.txt", "first"),
        ("c.md", "no"),
        ("d.txt", "third"),
        ("e.txt", ""),
    ]:
        write(tmp_path / name, text)
    assert read(f"{tmp_path}/**/*.txt") == ["first", "second", "third"]


def test_a_deep_glob_enters_a_folder_once(tmp_path):
    """One link back made 41 documents of one file, and two of them never ended."""
    write(tmp_path / "texts/a/b/one.txt", "one")
    write(tmp_path / "texts/.hidden/two.txt", "two")
    (tmp_path / "texts/a/back").symlink_to(tmp_path / "texts")
    (tmp_path / "texts/a/b/back").symlink_to(tmp_path / "texts/a")
    (tmp_path / "named").symlink_to(tmp_path / "texts")
    for pattern in ("texts/**/*.txt", "texts/**/b/*.txt", "**/a/**/*.txt", "texts/**", "named/**/*.txt"):
        assert read(f"{tmp_path}/{pattern}") == ["one"], pattern


def test_a_deep_glob_follows_links_to_folders(tmp_path):
    write(tmp_path / "elsewhere/b/two.txt", "two")
    write(tmp_path / "texts/one.txt", "one")
    (tmp_path / "texts/a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "texts/z").symlink_to(tmp_path / "elsewhere/b")
    for pattern in ("texts/**/*.txt", "*/**/*.txt", "**/*.txt"):
        assert sorted(read(f"{tmp_path}/{pattern}")) == ["one", "two"], pattern
    assert read(f"{tmp_path}/texts/**/b/*.txt") == ["two"]


def test_a_deep_glob_is_read_from_the_working_folder(tmp_path, monkeypatch):
    write(tmp_path / "a[1]/b/one.txt", "one")
    monkeypatch.chdir(tmp_path)
    for pattern in ("**/*.txt", "./**/one.txt", "**/b/*.txt", "*/**/*.txt"):
        assert open_source(pattern, "text").names == (pattern,)
        assert read(pattern) == ["one"], pattern


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_what_is_no_plain_file_is_refused_unread(tmp_path, place, kind):
    path = tmp_path / "a.txt"
    os.mkfifo(path) if place == "pipe" else path.symlink_to(place)
    assert f"{path} is a pipe or a device" in refusal(UsageError, 2, path, kind)
    assert f"{path} is a pipe or a device" in refusal(UsageError, 2, f"{path},{path}", "pairs")
    assert "No file with anything in it" in refusal(UsageError, 2, f"{tmp_path}/*.txt", kind)


@pytest.fixture
def small(monkeypatch):
    """Bounds that are reached at once: of one text of a stream, in a machine of 6,000 bytes, and of a record."""
    monkeypatch.setattr(tfcli.machine, "memory", lambda: 6000)
    for module in (tfcli.corpora.reading, tfcli.corpora.delimited):
        monkeypatch.setattr(module, "LONGEST", 100)


@pytest.fixture
def long(monkeypatch):
    """A text of more than seven bytes is not held as a whole."""
    monkeypatch.setattr(tfcli.corpora.reading, "CHUNK", 7)


LONG = "\ufeffá two\r\nthree €\n" + "x" * 20 + " 😀\n fi\ufeffve 日本"


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_long_text_is_read_in_stretches_and_is_the_same(tmp_path, long, compression):
    path = write(tmp_path / f"a.txt{compression}", LONG)
    (text,) = read(path)
    assert isinstance(text, LongText) and max(map(len, text)) <= 7
    assert "".join(text) == "".join(text) == LONG[1:]
    assert len(text) == len(LONG) - 1 and not is_blank(text)
    for cut in range(len(text) + 1):
        assert "".join(text[:cut]) + "|" + "".join(text[cut:]) == f"{LONG[1:][:cut]}|{LONG[1:][cut:]}"
    for limit in (1, 3, 8, 100):
        assert list(pieces(text, limit)) == list(pieces(LONG[1:], limit))


def test_a_long_text_is_divided_as_a_short_one(tmp_path, long, monkeypatch):
    for number in range(8):
        write(tmp_path / f"{number}.txt", f"{number} {LONG}")

    def divided(split):
        parts = open_split(DataSection(source=f"{tmp_path}/*.txt", split=split, validation_fraction=0.3), "text")
        return parts.fingerprint, [(part, "".join(text)) for part, text in parts.parts()]

    long_ones = [divided(split) for split in ("hash", "tail")]
    monkeypatch.undo()
    assert [divided(split) for split in ("hash", "tail")] == long_ones


def test_a_long_blank_text_is_left_out(tmp_path, long):
    write(tmp_path / "a.txt", " \n" * 20)
    assert "There is no text" in refusal(UsageError, 2, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("é".encode() * 20 + b"a\0", "is binary, not text: byte 41 is 0"),
        (b"a" * 27 + b"\xe2\x82" + b"a" * 20, "is not valid UTF-8: byte 27 is 0xe2"),
        (b"a" * 19 + "€".encode()[:2], "is not valid UTF-8: byte 19 is 0xe2"),
    ],
)
def test_a_bad_byte_far_into_a_text_is_named_by_its_place(tmp_path, long, content, sentence):
    (text,) = read(write(tmp_path / "a.txt", content))
    with pytest.raises(BrokenInputError, match=sentence):
        list(text)


def test_an_endless_standard_input_is_refused(small):
    with (
        pytest.raises(BrokenInputError, match="more than 1,000 bytes in standard input"),
        Path("/dev/zero").open("rb") as zeros,
    ):
        Spool(zeros, "standard input", is_text=True)


def test_pairs_of_standard_input_may_be_larger_than_memory(small, stdin):
    stdin(b"Sim.\tYes.\n" * 1000)
    assert len(read("-", "pairs")) == 1000
    stdin(b"Sim.\tYes.\n" * 1000)
    assert "more than 1,000 bytes in standard input" in refusal(BrokenInputError, 1, "-")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    ("suffix", "begin"),
    [(".jsonl", '{"text": "'), (".tsv", "one\n"), (".csv", "one\n"), (".csv", 'one\n"' + "a\n" * 60)],
)
def test_a_record_that_never_ends_is_refused(tmp_path, small, suffix, begin, compression):
    path = write(tmp_path / f"a{suffix}{compression}", begin + "a" * 101)
    assert f"of {path} is longer than 100 bytes" in refusal(BrokenInputError, 1, path)


def test_records_are_bounded_one_by_one(tmp_path, small):
    rows = [f'"{n}\n{"a" * 60}"\n' for n in range(10)]
    assert len(read(write(tmp_path / "a.csv", "".join(rows)))) == 10


def test_a_name_with_brackets_is_a_file_when_there_is_one(tmp_path):
    assert read(write(tmp_path / "a[1].txt", "literal")) == ["literal"]


def test_several_sources_follow_one_another_and_blank_documents_are_left_out(tmp_path):
    paths = [str(write(tmp_path / name, text)) for name, text in [("z.txt", "z"), ("b.txt", " \n\t"), ("a.txt", "a")]]
    source = open_source(paths, "text")
    assert source.names == tuple(paths)
    assert list(source.documents()) == list(source.documents()) == ["z", "a"]
    assert read(paths, max_documents=1) == ["z"]


def test_the_fingerprint_is_of_the_content(tmp_path):
    def fingerprint(path: Path, **options) -> str:
        return open_source(str(path), "text", **options).fingerprint()

    original = fingerprint(write(tmp_path / "a.txt", "text"))
    assert fingerprint(write(tmp_path / "b.txt", "text")) == original
    assert fingerprint(write(tmp_path / "c.txt", "texts")) != original
    assert fingerprint(tmp_path / "a.txt", max_documents=1) != original
    assert fingerprint(write(tmp_path / "a.md", "text")) != original


def test_parallel_files_give_a_pair_for_each_line(tmp_path):
    write(tmp_path / "a.de.gz", "Guten Tag.\r\n\nEin\u2028Satz\n")
    write(tmp_path / "a.en", "Good day.\nleft out\nOne sentence")
    pairs = read(f"{tmp_path}/a.de.gz,{tmp_path}/a.en", "pairs")
    assert pairs == [Pair("Guten Tag.", "Good day."), Pair("Ein\u2028Satz", "One sentence")]


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes) -> None:
        standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    yield give
    standard_input.cache_clear()


def test_standard_input_is_one_text_that_can_be_opened_and_read_again(stdin):
    stdin(b"a\r\nb")
    first, second = open_source("-", "text"), open_source("-", "text")
    assert list(first.documents()) == list(first.documents()) == list(second.documents()) == ["a\r\nb"]
    assert first.fingerprint() == second.fingerprint()


def test_standard_input_gives_pairs_separated_by_a_tab(stdin):
    stdin("Olá.\tHello.\nSim.\tYes.\n".encode())
    assert read("-", "pairs") == [Pair("Olá.", "Hello."), Pair("Sim.", "Yes.")]


def test_an_empty_standard_input_is_refused(stdin):
    stdin(b"")
    assert "Standard input is empty" in refusal(UsageError, 2, "-")


def test_the_temporary_copy_goes_with_its_last_reader_or_with_the_program():
    spool = Spool(io.BytesIO(b"bytes"), "x")
    path = spool.path
    assert path.read_bytes() == b"bytes"
    del spool
    assert not path.exists()
    program = "import io; from tfcli.corpora.reading import Spool; s = Spool(io.BytesIO(b'1'), 'x'); print(s.path)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not Path(printed.strip()).exists()


def test_a_full_disk_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "x")))
    with pytest.raises(TfcliError, match=r"Cannot keep a copy of standard input in .*: No space left on device"):
        Spool(io.BytesIO(b"bytes"), "standard input")


@pytest.mark.parametrize("name", ["Once upon a time, " * 30, "Is this a text? " * 30, "~nobody-of-this-name/a.txt"])
@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_a_name_that_no_file_can_have_is_refused(name, kind):
    assert name.split(",")[0] in refusal(UsageError, 2, name, kind)


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path):
    write(tmp_path / "stories.txt", "text")
    sentence = refusal(UsageError, 2, tmp_path / "storis.txt")
    assert f"There is no file '{tmp_path}/storis.txt'" in sentence
    assert f"perhaps {tmp_path}/stories.txt was meant" in sentence
    assert "check the path" in refusal(UsageError, 2, tmp_path / "none" / "a.txt")


def test_a_glob_without_a_match_is_refused(tmp_path):
    assert f"'{tmp_path}/*.txt'" in refusal(UsageError, 2, f"{tmp_path}/*.txt")


def test_a_folder_is_all_its_files_of_known_kinds_in_order_each_once(tmp_path):
    for name, text in [
        ("books/b/two.txt", "two"),
        ("books/a.jsonl.xz", '{"text": "one"}\n'),
        ("books/b/three.md.gz", "three"),
        ("books/b/empty.txt", ""),
        ("books/.hidden/four.txt", "no"),
        ("books/picture.png", "no"),
        ("elsewhere/five.txt", "five"),
    ]:
        write(tmp_path / name, text)
    for link, to in [
        ("b/back", "books"),
        ("z", "elsewhere"),
        ("zz", "elsewhere"),
        ("b/two again.txt", "books/b/two.txt"),
    ]:
        (tmp_path / "books" / link).symlink_to(tmp_path / to)
    assert read(tmp_path / "books") == ["one", "three", "two", "five"]
    assert read(f"{tmp_path}/books/") == read(tmp_path / "books")
    assert open_source(f"{tmp_path}/books", "text").names == (f"{tmp_path}/books",)


def test_a_folder_without_text_or_of_a_run_is_refused(tmp_path):
    write(tmp_path / "a/picture.png", "no")
    assert f"No file in the folder {tmp_path}/a has text" in refusal(UsageError, 2, tmp_path / "a")
    for made in ("recipe.toml", "manifest.json"):
        write(tmp_path / made / "README.md", "a run")
        write(tmp_path / made / made, "")
        assert f"tfcli has made (it has {made})" in refusal(UsageError, 2, tmp_path / made)
    assert "is a folder, where a file is needed" in refusal(UsageError, 2, f"{tmp_path},{tmp_path}", "pairs")


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_an_empty_file_is_refused(tmp_path, compression):
    path = write(tmp_path / f"a.txt{compression}", "")
    assert f"{path} is empty" in refusal(UsageError, 2, path)


def test_nothing_but_white_space_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", " \n\n\t")
    assert f"no text in {path}" in refusal(UsageError, 2, path)


def test_an_unknown_suffix_is_refused_and_the_known_ones_listed(tmp_path):
    sentence = refusal(UsageError, 2, write(tmp_path / "a.xyz", "text"))
    assert f"{tmp_path}/a.xyz is of no known kind" in sentence
    for suffix in [".txt", ".md", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".gz", ".zst"]:
        assert suffix in sentence


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_binary_file_is_refused_with_the_place(tmp_path, compression):
    path = write(tmp_path / f"a.txt{compression}", b"PK\x03\x04\0\0")
    assert f"{path} is binary, not text: byte 4 is 0" in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_invalid_utf8_is_refused_with_the_place_of_the_byte(tmp_path, start):
    # "Olá" is four bytes, the line feed the fifth, so the Latin-1 "é" after "caf" is byte 8, counted from 0.
    path = write(tmp_path / "a.txt", start + "Olá\ncaf".encode() + b"\xe9!")
    assert f"{path} is not valid UTF-8: byte {8 + len(start)} is 0xe9" in refusal(BrokenInputError, 1, path)


def test_invalid_utf8_in_a_later_line_is_placed_from_the_beginning_of_the_file(tmp_path):
    path = write(tmp_path / "a.tsv", b"a b\tc d\ne\xff\tf\n")
    assert "byte 9 is 0xff" in refusal(BrokenInputError, 1, path, "pairs")


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.jsonl.gz", "a.csv.zst", "a.txt.bz2", "a.jsonl.xz"])
def test_a_truncated_compressed_file_is_refused(tmp_path, name):
    text = "".join(f'{{"text": "{n * 7919}"}}\n' for n in range(2000))
    path = write(tmp_path / name, text if "csv" not in name else "text\n" + text.replace('"', ""))
    path.write_bytes(path.read_bytes()[:-20])
    sentence = refusal(BrokenInputError, 1, path)
    assert str(path) in sentence and "truncated" in sentence


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.txt.bz2", "a.txt.xz"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"plain text, not compressed at all")
    assert f"{path} is no {path.suffix} file" in refusal(BrokenInputError, 1, path)


def test_parallel_files_of_different_length_are_refused_with_both_lengths(tmp_path):
    write(tmp_path / "a.de", "eins\nzwei\ndrei\n")
    write(tmp_path / "a.en", "one\ntwo\nthree\nfour\nfive")
    for names, lengths in [("a.de a.en", "3 5"), ("a.en a.de", "5 3")]:
        first, second = (tmp_path / name for name in names.split())
        more, fewer = lengths.split()
        sentence = refusal(BrokenInputError, 1, f"{first},{second}", "pairs")
        assert f"{first} has {more} lines and {second} has {fewer}" in sentence


def test_parallel_files_must_be_two_that_exist_and_are_plain_text(tmp_path):
    one = write(tmp_path / "a.de", "eins\n")
    table = write(tmp_path / "a.csv", "one\n")
    assert "names 3 files" in refusal(UsageError, 2, f"{one},{one},{one}", "pairs")
    assert f"There is no file '{tmp_path}/a.en'" in refusal(UsageError, 2, f"{one},{tmp_path}/a.en", "pairs")
    assert f"{table} is a table" in refusal(UsageError, 2, f"{one},{table}", "pairs")


def test_a_text_file_holds_no_pairs(tmp_path):
    path = write(tmp_path / "a.txt", "text")
    assert f"{path} holds text, where pairs are needed" in refusal(UsageError, 2, path, "pairs")


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt", "text")

    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert f"Cannot read {path}: Permission denied" in refusal(UsageError, 2, path)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32", "UTF-32"),
    ],
)
def test_a_text_in_another_unicode_encoding_is_named_with_its_conversion(tmp_path, encoding, name):
    for file, text in (("a b.txt", "first line\nsecond\n"), ("a.csv", "text,n\nhello,1\n"), ("a.tsv", "ja\tyes\n")):
        path = write(tmp_path / file, text.encode(encoding))
        sentence = refusal(BrokenInputError, 1, path, "pairs" if file == "a.tsv" else "text")
        assert f"{path} is {name}, and text is read in UTF-8" in sentence
        converted = path.with_name(f"{path.stem}.utf8{path.suffix}")
        command = f"iconv -f {name} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(converted))}"
        assert f"convert it: `{command}`" in sentence
        subprocess.run(["bash", "-c", command], check=True)
        assert converted.read_text(encoding="utf-8-sig") == text
    packed = write(tmp_path / "a.txt.gz", "first line\n".encode(encoding))
    assert f"decompress it, and convert it with `iconv -f {name} -t UTF-8`" in refusal(BrokenInputError, 1, packed)


def test_bytes_that_are_zero_here_and_there_are_binary(tmp_path):
    path = write(tmp_path / "a.txt", b"ab\0c\0\0def\0ghijk")
    assert "is binary, not text: byte 2 is 0" in refusal(BrokenInputError, 1, path)
