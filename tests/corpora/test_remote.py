"""Remote files: read as streams over HTTP and from the stores of fsspec; one sentence where they cannot be."""

import functools
import http.server
import re
import sys
import threading
from collections.abc import Iterator

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.corpora.helpers import read, refusal, write
from tfcli.addresses import typed
from tfcli.corpora import Pair
from tfcli.corpora.open import open_source
from tfcli.corpora.split import open_split
from tfcli.errors import TfcliError, UsageError
from tfcli.recipe.data import DataSection


class Server(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, with an entity tag or none, or cut off."""

    tag: str | None = None
    cut = 0

    def end_headers(self) -> None:
        if self.tag:
            self.send_header("ETag", self.tag)
        super().end_headers()

    def copyfile(self, source, outputfile) -> None:
        data = source.read()
        outputfile.write(data[: len(data) - type(self).cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[str]:
    monkeypatch.setattr(Server, "tag", None)
    monkeypatch.setattr(Server, "cut", 0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=tmp_path)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.jsonl.bz2", "a.jsonl.xz"])
def test_what_is_behind_a_url_is_what_is_in_the_file(tmp_path, server, memory, name):
    path = write(tmp_path / name, "".join(f'{{"text": "é {number}"}}\n' for number in range(3000)))
    memory.pipe(f"/{name}", path.read_bytes())
    there = read(path)
    assert len(there) == 3000
    for url in (f"{server}/{name}", f"{server}/{name}?download=1", f"memory://{name}", f"file://{path}"):
        assert read(url) == there, url
        assert open_source(url, "text").names == (url,)


def test_tables_that_are_read_from_their_end(tmp_path, server, memory):
    pyarrow.parquet.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema({"text": pa.string()})) as writer:
        writer.write_table(pa.table({"text": ["one", "two"]}))
    for name in ("a.parquet", "a.arrow"):
        memory.pipe(f"/{name}", (tmp_path / name).read_bytes())
        assert read(f"{server}/{name}") == read(f"memory://{name}") == ["one", "two"]


def test_globs_and_folders_of_a_store_are_files_in_order(memory):
    for name, text in {"b/c.txt": "two", "a.txt": "one", "b/empty.txt": "", "d.txt": "three"}.items():
        memory.pipe(f"/texts/{name}", text.encode())
    assert read("memory://texts/*.txt") == ["one", "three"]
    assert read("memory://texts/**/*.txt") == read("memory://texts") == ["one", "two", "three"]
    assert "No file with anything in it" in refusal(UsageError, 2, "memory://texts/*.csv")


def test_pairs_of_two_remote_files(tmp_path, server):
    write(tmp_path / "a.pt", "Sim.\n")
    write(tmp_path / "a.en", "Yes.\n")
    assert read(f"{server}/a.pt,{server}/a.en", "pairs") == [Pair("Sim.", "Yes.")]


def test_the_fingerprint_is_of_the_entity_tag_else_of_the_content(tmp_path, server, monkeypatch):
    path = write(tmp_path / "a.txt", "one")

    def fingerprint() -> str:
        return open_split(DataSection(source=typed(f"{server}/a.txt"), split="tail"), "text").fingerprint

    content = fingerprint()
    write(path, "two")
    assert fingerprint() != content
    write(path, "one")
    assert fingerprint() == content
    monkeypatch.setattr(Server, "tag", '"1"')
    tagged = fingerprint()
    assert tagged == fingerprint() != content
    monkeypatch.setattr(Server, "tag", '"2"')
    assert fingerprint() not in (tagged, content)


def test_a_remote_file_that_changes_is_refused(tmp_path, server, memory):
    memory.pipe("/a.jsonl", b'{"text": "one"}\n' * 200_000)
    write(tmp_path / "a.jsonl", '{"text": "one"}\n' * 200_000)
    for url, change in {
        "memory://a.jsonl": lambda: memory.pipe("/a.jsonl", b'{"text": "two"}\n'),
        f"{server}/a.jsonl": lambda: write(tmp_path / "a.jsonl", '{"text": "two"}\n'),
    }.items():
        source = open_source(typed(url), "text")
        change()
        with pytest.raises(TfcliError, match="has changed while it was read: it had 3"):
            list(source.documents())


def test_a_connection_that_breaks_is_no_end_of_the_text(tmp_path, server, monkeypatch):
    write(tmp_path / "a.jsonl", '{"text": "one"}\n' * 100)
    monkeypatch.setattr(Server, "cut", 160)
    sentence = refusal(TfcliError, 1, f"{server}/a.jsonl")
    assert f"Cannot fetch {server}/a.jsonl: the connection ended 160 bytes before the end" in sentence
    assert "the connection ended" in refusal(TfcliError, 1, f"{server}/a.jsonl", on_bad_record="skip")


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("{}/none.txt", UsageError, r"There is no file .*none\.txt; check the address"),
        ("http://127.0.0.1:1/a.txt", TfcliError, "Cannot fetch .*: .*refused; check the address, the network"),
        ("memory://none.txt", UsageError, "There is no file memory://none.txt"),
        ("nothing://a.txt", UsageError, "Nothing here reads nothing://"),
        ("{}/a.docx", UsageError, r"a\.docx is of no known kind"),
        ("{}/empty.txt", UsageError, "empty.txt is empty"),
    ],
)
def test_what_cannot_be_reached_is_one_sentence(tmp_path, server, name, error, sentence):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "a.docx").write_text("a")
    assert re.search(sentence, refusal(error, error.exit_code, name.format(server)))


@pytest.mark.parametrize(("url", "library"), [("s3://bucket/a.txt", "s3fs"), ("gs://bucket/*.txt", "gcsfs")])
def test_a_library_that_is_not_there_is_named_with_its_command(url, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    assert f"needs the library {library}; pip install {library}" in refusal(UsageError, 2, url)
