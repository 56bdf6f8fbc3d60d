"""A run from somebody else contacts nobody, and no secret of an address is written or shown.

A server on this machine counts who asks it. Commands run in this process, each as if it were a new one.
"""

import base64
import functools
import http.server
import re
import shlex
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.commands import SHRUNK, tfcli

TEXT = "\n".join(f"One day {number} Tom swam to the bank of river {number % 7}." for number in range(200))
TINY = [*SHRUNK, "--set", "model.max_seq_len=32", "--set", "train.save_every=2"]
PASSWORD = "HuntErPassw0rd"
SIGNATURE = "5f4dcc3b5aa765d61d8327deb882cf99c0ffee"
PRESIGNED = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE&X-Amz-Signature={SIGNATURE}"
SECRETS = (PASSWORD, SIGNATURE, "AKIDEXAMPLE")


@dataclass
class Server:
    """Where it is, and the paths that were asked for since it was last looked at."""

    url: str
    asked: list[str] = field(default_factory=list)

    def contacts(self) -> int:
        number = len(self.asked)
        self.asked.clear()
        return number


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serves a.txt, also below /locked/ to who knows the password. The hub, too, is looked for here."""
    files = tmp_path / "www"
    files.mkdir()
    (files / "a.txt").write_text(TEXT)
    expected = "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            if self.path.startswith("/locked") and self.headers.get("Authorization") != expected:
                self.send_error(403)
                return
            self.path = self.path.removeprefix("/locked")
            super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=files)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        known = Server(f"http://127.0.0.1:{running.server_port}")
        monkeypatch.setenv("HF_ENDPOINT", known.url)
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield known
        running.shutdown()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a cache and a memory of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TFCLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def be_somebody_else(home: Path) -> None:
    """Lose the cache, and what was typed."""
    for name in ("cache", "state"):
        shutil.rmtree(home / name, ignore_errors=True)


def planted(home: Path, line: str) -> None:
    """Write a source into the recipe of the run `b`, which was trained on the built-in stories."""
    recipe = home / "work" / "b" / "recipe.toml"
    text = recipe.read_text()
    assert 'source = "builtin:stories"' in text
    recipe.write_text(text.replace('source = "builtin:stories"', line))


def remedy_of(stderr: str) -> list[str]:
    found = re.search("`tfcli (.*)`", stderr)
    assert found is not None, stderr
    return shlex.split(found[1])


COMMANDS = (
    ["train", "--resume", "own", "--checkpoint", "3", "--out", "other", "--steps", "4"],
    ["train", "--resume", "own", "--steps", "4"],
    ["evaluate", "own"],
    ["inspect", "heads", "own"],
    ["inspect", "ablate", "own"],
    ["inspect", "steer", "own", "--from", "Tom", "--to", "Mia"],
    ["inspect", "positions", "own", "--loss"],
    ["evaluate", "own", "--compare", "own"],
)


def test_an_address_in_a_run_is_read_once_it_has_been_typed(server: Server, home: Path):
    trained = tfcli("train", f"{server.url}/a.txt?download=true", "--out", "own", *TINY)
    assert trained.exit_code == 0, trained.stderr
    assert server.contacts() > 0
    shutil.rmtree(home / "cache")
    assert tfcli("evaluate", "own").exit_code == 0  # one's own, without a word
    assert server.contacts() > 0
    for command in COMMANDS:
        be_somebody_else(home)
        server.contacts()
        refused = tfcli(*command)
        assert refused.exit_code == 2, (command, refused.stderr)
        assert f"own/recipe.toml names the address {server.url}/a.txt?download=true, which you" in refused.stderr
        assert server.contacts() == 0, command
        assert not Path("other").exists()
        remedy = remedy_of(refused.stderr)
        given = tfcli(*remedy)
        assert given.exit_code == 0, (remedy, given.stderr)
        assert server.contacts() > 0 or "--loss" in command, "a finished run reads nothing, and knows the address now"
        if "--loss" in command:
            assert tfcli(*command).exit_code == 0
        shutil.rmtree("other", ignore_errors=True)
    be_somebody_else(home)
    assert tfcli("verify", "own").exit_code == 0  # on a text that is made up
    assert server.contacts() == 0


def test_what_is_in_the_cache_is_read_without_a_question(server: Server, home: Path):
    assert tfcli("train", f"{server.url}/a.txt", "--out", "own", *TINY).exit_code == 0
    shutil.rmtree(home / "state")
    server.contacts()
    assert tfcli("evaluate", "own").exit_code == 0
    assert server.contacts() == 0


def test_pruning_the_cache_does_not_forget_what_was_typed(server: Server, home: Path):
    assert tfcli("train", f"{server.url}/a.txt", "--out", "own", *TINY).exit_code == 0
    assert tfcli("cache", "prune", "--all").exit_code == 0
    assert tfcli("train", "--resume", "own", "--steps", "4").exit_code == 0


@pytest.mark.parametrize(
    "line",
    [
        'source = "{}/a.txt"',
        'source = ["builtin:stories", "{}/a.txt"]',
        'source = "builtin:stories"\nvalidation = "{}/a.txt"',
        'sources = [{{source = "{}/a.txt"}}]',
        'source = "hf:owner/name"',
        'source = "file://{}/a.txt"',
        'source = "zip://a.txt::{}/a.zip"',
        'source = "memory://a.txt::{}/a.txt"',
        'source = "a.de,{}/a.en"',
        'source = "\\\\\\\\host\\\\share\\\\a.txt"',
    ],
)
def test_no_address_that_somebody_has_planted_is_contacted(server: Server, home: Path, line: str):
    sizes = ["--set", "train.steps=2", "--set", "data.max_documents=300"]
    assert tfcli("train", "--out", "b", "--size", "tiny", "--layers", "1", *sizes).exit_code == 0
    planted(home, line.format(server.url))
    for command in (
        ["train", "--resume", "b", "--steps", "3"],
        ["evaluate", "b"],
        ["inspect", "heads", "b"],
        ["inspect", "heads", "b", "--find", "bank"],
        ["verify", "b"],
        ["runs", "show", "b"],
        ["generate", "b", "Tom"],
        ["train", "--init", "b", "--dry-run"],
    ):
        be_somebody_else(home)
        result = tfcli(*command)
        assert result.exit_code in (0, 2), (command, result.stderr)
        assert not server.asked, command


def test_a_recipe_that_a_user_runs_may_name_addresses(server: Server, home: Path):
    assert tfcli("train", f"{server.url}/a.txt", "--out", "own", *TINY).exit_code == 0
    be_somebody_else(home)
    assert tfcli("train", "--recipe", "own/recipe.toml", "--out", "again").exit_code == 0
    assert tfcli("train", "--resume", "own", "--steps", "4").exit_code == 0


def written_below(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file():
                yield file, file.name.encode() + b"\n" + file.read_bytes()


def require_no_secret(shown: str, *folders: Path) -> None:
    for secret in SECRETS:
        assert secret not in shown
        for file, content in written_below(*folders):
            assert secret.encode() not in content, file


@pytest.mark.parametrize("path", [f"/a.txt?{PRESIGNED}", "/locked/a.txt"])
def test_secrets_are_neither_written_nor_shown(server: Server, home: Path, path: str):
    host = server.url.removeprefix("http://")
    url = f"http://user:{PASSWORD}@{host}{path}" if "locked" in path else f"{server.url}{path}"
    bad = url.replace("/a.txt", "/none.txt")
    Path("recipe.toml").write_text(f'name = "mine"\n[data]\nsource = "{url}"\n')
    for command, exit_code in (
        (["tokenize", "train", url, "--vocab-size", "300", "--out", "t.json"], 0),
        (["tokenize", "train", bad, "--out", "u.json"], 2),
        (["prepare", url, "--tokenizer", "t.json", "--out", "prepared"], 0),
        (["prepare", url, "--tokenizer", "t.json", "--out", "by-two", "--workers", "2"], 0),
        (["prepare", bad, "--tokenizer", "t.json", "--out", "bad"], 2),
        (["data", "report", url, "--json"], 0),
        (["train", url, "--out", "own", *TINY, "-v"], 0),
        (["train", "--set", f"data.source={url}", "--out", "set", *TINY, "--json"], 0),
        (["train", "--set", f'data.sources=[{{source = "{url}"}}]', "--out", "mixed", *TINY], 0),
        (["train", bad, "--out", "bad", *TINY, "--debug"], 2),
        (["train", "--set", f"tokenizer.path={url}", "--out", "bad", *TINY], 2),
        (["train", url, bad, "--no-such-option"], 2),
        (["evaluate", url, url], 2),
        (["evaluate", "own", url, "--json"], 0),
        (["run", "recipe.toml", "--out", "ran", *TINY], 0),
        (["run", "recipe.toml", "--dry-run", *TINY, "--json"], 0),
        (["runs", "show", "own"], 0),
        (["cache", "list"], 0),
    ):
        result = tfcli(*command)
        assert result.exit_code == exit_code, (command[:2], result.stderr)
        Path("recipe.toml").rename(home / "recipe.toml")
        require_no_secret(result.stdout + result.stderr, home / "work", home / "cache", home / "state")
        (home / "recipe.toml").rename("recipe.toml")
    shutil.rmtree(home / "cache")
    asks = tfcli("train", "--resume", "own", "--steps", "4")
    assert asks.exit_code == 2
    assert "lacks its secret, which tfcli does not keep; give it with the secret in the place of ***" in asks.stderr
    words = remedy_of(asks.stderr)
    assert words[-2] == "--data"
    assert tfcli(*words).exit_code == 2  # as it is printed, there is still no secret in it
    assert tfcli(*words[:-1], url).exit_code == 0


def test_a_run_goes_on_in_several_processes_with_a_secret_that_only_the_first_one_knows(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
):
    url = f"{server.url}/a.txt?{PRESIGNED}"
    assert tfcli("train", url, "--out", "own", *TINY).exit_code == 0
    launched: list[str] = []

    def launch(command: Sequence[str], processes: int) -> None:
        assert processes == 2
        assert list((home / "cache" / "datasets").iterdir()), "the processes find the text prepared"
        launched.extend(command)

    monkeypatch.setattr("tfcli.console.launching.launch", launch)
    shutil.rmtree(home / "cache")
    command = ["train", "--resume", "own", "--steps", "4", "--nproc", "2"]
    asks = tfcli(*command)
    assert (asks.exit_code, launched) == (2, [])
    words = remedy_of(asks.stderr)
    assert words[:-1] == [*command, "--data"]

    result = tfcli(*command, "--data", url)
    assert result.exit_code == 0, result.stderr
    assert launched[:3] == ["train", "--resume", "own"]
    require_no_secret(result.stdout + result.stderr + " ".join(launched), home / "work", home / "cache")
