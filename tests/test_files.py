"""Files are whole or not there at all, whatever stops the writing."""

import ast
import errno
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tfcli import files
from tfcli import files as locks
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import (
    Taken,
    cache_folder,
    claimed,
    digest,
    file_digest,
    read_json,
    replacing,
    replacing_folder,
    require_writable,
    write_json,
    write_text,
)

STOPS = [KeyboardInterrupt, SystemExit, ValueError, MemoryError]


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    write_text(path, "nové ✓")
    assert path.read_bytes() == "nové ✓".encode()
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_in_the_middle_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, stop: type[BaseException]):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(stop), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise stop
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_where_no_disk_is_full_none_is_to_be_freed(tmp_path: Path):
    with pytest.raises(TfcliError, match=r"No such file or directory; choose another folder\.$"):
        write_text(tmp_path / "nowhere" / "a.txt", "text")


@pytest.mark.parametrize("write", [write_text, write_json])
def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
):
    """The disk may fill while writing or, with delayed allocation, only when the file is flushed."""
    path = tmp_path / "a.txt"
    write(path, "old")
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(TfcliError) as caught:
        write(path, "new")
    message = f"Cannot write {path}: No space left on device; free the disk or choose another folder."
    assert str(caught.value) == message
    assert caught.value.exit_code == 1
    monkeypatch.setattr(Path, "write_text", no_space)
    with pytest.raises(TfcliError, match="No space left on device"):
        write(path, "new")
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


UNREACHABLE = {
    "a missing folder": "missing/a.txt",
    "below a file": "file/a.txt",
    "too long a name": "n" * 300,
    "a folder of that name": "folder",
}


@pytest.mark.parametrize("name", ["n" * 255, "ñ" * 127])
def test_the_longest_name_that_there_is_can_be_written(tmp_path: Path, name: str):
    write_text(tmp_path / name, "x")
    with claimed(tmp_path / "folder" / name), replacing_folder(tmp_path / "folder" / name) as temporary:
        (temporary / "a").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([name, "folder", name, "a"])


@pytest.mark.parametrize("name", UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, name: str):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("y")
    with pytest.raises(TfcliError, match="Cannot write"):
        write_text(tmp_path / name, "new")
    assert {p.name for p in tmp_path.iterdir()} == {"file", "folder"}
    assert (tmp_path / "folder" / "inside").read_text() == "y"


def test_a_folder_appears_whole_with_everything_in_it(tmp_path: Path):
    path = tmp_path / "deep" / "checkpoint"
    with replacing_folder(path) as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub" / "a.txt").write_text("a")
        assert not path.exists()
    assert (path / "sub" / "a.txt").read_text() == "a"
    assert [*path.parent.iterdir()] == [path]


def test_a_new_folder_has_the_permissions_of_any_other(tmp_path: Path):
    """A temporary folder is private; what it becomes must be as readable as `mkdir` would make it."""
    (tmp_path / "ordinary").mkdir()
    with replacing_folder(tmp_path / "new"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_in_the_middle_leaves_no_folder(tmp_path: Path, stop: type[BaseException]):
    path = tmp_path / "checkpoint"
    with pytest.raises(stop), replacing_folder(path) as temporary:  # noqa: PT012
        (temporary / "a.txt").write_text("half")
        raise stop
    assert [*tmp_path.iterdir()] == []


def test_a_full_disk_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "checkpoint"
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(TfcliError, match="No space left on device"), replacing_folder(path) as temporary:
        (temporary / "a.txt").write_text("whole but not flushed")
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_is_there_is_never_replaced(tmp_path: Path):
    path = tmp_path / "taken"
    path.mkdir()
    (path / "precious").write_text("x")
    with pytest.raises(TfcliError, match="Cannot write"), replacing_folder(path) as temporary:
        (temporary / "other").write_text("y")
    assert [p.name for p in path.iterdir()] == ["precious"]
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder_below_a_file_is_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TfcliError, match="Cannot write"), replacing_folder(tmp_path / "file" / "new"):
        pytest.fail("there is no folder to write in")


def test_names_of_temporary_files_cannot_be_guessed_and_links_are_not_followed(tmp_path: Path):
    """Even where the name is known, the file must be made here: a link that lies there leads nowhere."""
    foreign = tmp_path / "foreign"
    foreign.write_text("not yours")
    names = set()
    for _ in range(3):
        with replacing(tmp_path / "a.txt") as temporary:
            names.add(temporary.name)
            temporary.write_text("new")
    assert len(names) == 3
    assert all(len(name.removeprefix(".a.txt.").removesuffix(".tmp")) == 16 for name in names)
    planted = pytest.MonkeyPatch()
    planted.setattr(files.secrets, "token_hex", lambda _: "0" * 16)
    (tmp_path / f".a.txt.{'0' * 16}.tmp").symlink_to(foreign)
    with planted.context(), pytest.raises(TfcliError, match="Cannot write"):
        write_text(tmp_path / "a.txt", "through the link")
    planted.undo()
    assert foreign.read_text() == "not yours"
    assert (tmp_path / "a.txt").read_text() == "new"


def test_the_umask_is_obeyed_and_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("other threads would write with it"))
        write_text(tmp_path / "a.txt", "x")
        with replacing_folder(tmp_path / "folder"), claimed(tmp_path / "claim"):
            assert (tmp_path / "claim").stat().st_mode & 0o777 == 0o750
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750
    finally:
        monkeypatch.undo()
        os.umask(before)


def test_a_folder_of_the_user_s_is_filled_and_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The working folder and a mounted one cannot be replaced."""
    monkeypatch.chdir(tmp_path)
    inode = tmp_path.stat().st_ino
    with claimed(Path()), replacing_folder(Path()) as temporary:
        (temporary / "recipe.toml").write_text("last")
        (temporary / "config.json").write_text("first")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "recipe.toml"]
    assert tmp_path.stat().st_ino == inode


def test_what_is_put_into_a_claimed_folder_by_others_is_never_replaced(tmp_path: Path):
    path = tmp_path / "run"
    with pytest.raises(TfcliError, match=r"Cannot write .*run: Directory not empty"), claimed(path):  # noqa: PT012
        (path / "precious").write_text("x")
        with replacing_folder(path) as temporary:
            (temporary / "precious").write_text("y")
    assert (path / "precious").read_text() == "x"
    assert [*tmp_path.iterdir()] == [path]


def test_what_a_kill_has_left_is_swept_by_the_next_who_claims(tmp_path: Path):
    path = tmp_path / "run"
    for left in (tmp_path / f".run.{'a' * 16}.tmp", path / f".{'b' * 16}.tmp"):
        left.mkdir(parents=True)
        (left / "half").touch()
    others = [tmp_path / f".run.more.{'a' * 16}.tmp", tmp_path / ".run.mine.tmp"]
    for other in others:
        other.mkdir()
    with claimed(path):
        assert [*path.iterdir()] == []
    assert sorted(tmp_path.iterdir()) == sorted([*others, path])


CONTENDER = """
import sys, time
from pathlib import Path
from tfcli.files import Taken, claimed, replacing_folder
path, name = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
try:
    with claimed(path):
        time.sleep(0.02)
        with replacing_folder(path) as temporary:
            (temporary / "who").write_text(name)
        print("made", flush=True)
except Taken:
    print("taken", flush=True)
"""


def test_of_processes_that_begin_at_the_same_instant_one_makes_the_folder(tmp_path: Path):
    """Eight times three of them: always one, and what is there is that one's."""
    for attempt in range(8):
        path = tmp_path / f"run-{attempt}"
        command = python_command_of(CONTENDER)
        contenders = [
            subprocess.Popen([*command, str(path), str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for n in range(3)
        ]
        for one in contenders:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
        for one in contenders:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        said = [one.communicate()[0].strip() for one in contenders]
        assert sorted(said) == ["made", "taken", "taken"]
        assert (path / "who").read_text() == str(said.index("made"))


def test_who_loses_a_claim_leaves_the_folder_to_the_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The loser has made it, and the winner has locked it first."""
    path, winner = tmp_path / "deep" / "run", ExitStack()
    made = Path.mkdir

    def mkdir(folder: Path, *arguments: Any, **settings: Any) -> None:
        made(folder, *arguments, **settings)
        if folder == path:
            monkeypatch.undo()
            winner.enter_context(claimed(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with winner:
        with pytest.raises(Taken, match="Another process is making"), claimed(path):
            pytest.fail("it is held")
        assert path.is_dir()
        with pytest.raises(Taken, match="Another process is making"), claimed(path):
            pytest.fail("it is held")


def test_a_killed_process_lets_go_of_its_claim(tmp_path: Path):
    command = python_command_of(CONTENDER.replace("0.02", "60"))
    process = subprocess.Popen([*command, str(tmp_path / "run"), "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    while not (tmp_path / "run").is_dir():
        time.sleep(0.01)
    time.sleep(0.2)
    with pytest.raises(Taken, match="Another process is making"), claimed(tmp_path / "run"):
        pytest.fail("it is held")
    process.kill()
    process.wait()
    with claimed(tmp_path / "run"):
        pass


def python_command_of(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_place_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    require_writable(tmp_path / "not" / "yet" / "there")
    assert [*tmp_path.iterdir()] == [], "asking makes nothing"
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="file is a file, not a folder"):
        require_writable(tmp_path / "file" / "deeper" / "new")
    # Root may write anywhere, so that a folder without permission can only be played.
    monkeypatch.setattr(files.os, "access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(UsageError, match="is not writable") as caught:
        require_writable(tmp_path / "new" / "run")
    assert str(tmp_path) in str(caught.value)


def test_json_comes_back_as_it_was(tmp_path: Path):
    value = {"b": [1, 2.5, None, True], "a": "ção 😀 \u2028"}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert "ção 😀" in (tmp_path / "a.json").read_text(encoding="utf-8"), "readable, not escaped"


@pytest.mark.parametrize(
    "content", [b"", b'{"a": ', b"\xff\xfe\x00", b"not json"], ids=["empty", "cut", "binary", "text"]
)
def test_json_that_is_none_is_broken_input(tmp_path: Path, content: bytes):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(BrokenInputError) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path} is not valid JSON")


def test_json_that_is_not_there_or_a_folder_is_a_usage_error(tmp_path: Path):
    with pytest.raises(UsageError, match=r"There is no file .*gone\.json"):
        read_json(tmp_path / "gone.json")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "endless"):
        with pytest.raises(UsageError, match=r"Cannot read .*: it is no plain file"):
            read_json(path)


def test_a_digest_by_its_definition():
    """Each part is its length in 8 bytes, little end first, and its JSON; SHA-256 over all, the first 16 hex
    digits.

    Prepared datasets are found again by these digests: another definition would orphan every cache.
    """
    parts = [b'{"a": 1, "b": "\xc3\xa9"}', b"\x00\xff"]
    stream = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    assert digest({"b": "é", "a": 1}, b"\x00\xff") == hashlib.sha256(stream).hexdigest()[:16]
    assert digest("tfcli") == "df960fe402f9d6f2"


def test_a_digest_follows_content_and_division_and_not_the_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    different = [("ab",), ("a", "b"), ("b", "a"), ("abc",), (["a", "b"],), (), ("",), (b"ab",), (1,), ("1",), (None,)]
    assert len({digest(*parts) for parts in different}) == len(different)


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path):
    """SHA-256 of "abc" begins ba7816bf 8f01cfea (FIPS 180-2, appendix B.1)."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    assert file_digest(path) == "ba7816bf8f01cfea"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TFCLI_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"TFCLI_CACHE": "~/mine", "HOME": "/h"}, "/h/mine"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/tfcli"),
        ({"HOME": "/h"}, "/h/.cache/tfcli"),
        ({"TFCLI_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/tfcli"),
    ],
    ids=str,
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str):
    for name in ("TFCLI_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


WRITES_OTHERWISE = {
    "files.py": "the one way",
    "outputs.py": "inside `replacing`",
    "bench/data.py": "in a temporary folder, which its own sides read",
    "bench/worker.py": "its own stdout",
    "planning/command.py": "what its child says, in a temporary folder",
    "console/launching.py": "what launcher and workers tell each other, in a temporary folder",
    "cli/main.py": "a stream that the caller has closed",
    "inspection/embeddings/command.py": "inside `writing`",
    "inspection/attention/command.py": "inside `writing`",
    "corpora/reading.py": "a temporary file that only this process sees",
    "data/shards.py": "inside `replacing_folder`",
    "data/chunks.py": "inside `replacing`",
    "data/workers.py": "inside `replacing`",
    "runs/metrics.py": "the one file that is appended to",
    "runs/weights.py": "inside `replacing`",
}


def opened_for_writing(path: Path) -> bool:
    """Whether a module opens a file for writing, or writes one at once, other than through `tfcli.files`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name in ("open", "fdopen") and any(set(mode) & set("wax+") and len(mode) <= 3 for mode in modes):
            return True
        if name in ("write_bytes", "save_file", "mkstemp", "umask"):
            return True
        if name == "write_text" and isinstance(node.func, ast.Attribute):
            return not (isinstance(node.func.value, ast.Name) and node.func.value.id == "files")
    return False


def test_files_are_written_in_one_way():
    """A new module that opens a file for writing is not half-written safe: it goes through `replacing`, or is named
    here with its reason."""
    package = Path(files.__file__).parent
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if opened_for_writing(path)}
    assert found <= WRITES_OTHERWISE.keys(), found - WRITES_OTHERWISE.keys()
    assert found >= {"files.py", "data/shards.py", "runs/metrics.py"}, "the test itself finds nothing"


def test_where_a_folder_cannot_be_locked_one_of_two_still_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """NFS refuses to lock a folder. The later of two finds it filled, and what is there stays."""
    if locks.fcntl is None:
        pytest.skip("locks are files beside here")

    def refused(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(locks.fcntl, "flock", refused)
    path = tmp_path / "run"
    with pytest.raises(TfcliError, match="Directory not empty"), claimed(path), replacing_folder(path) as later:  # noqa: PT012
        (later / "who").write_text("later")
        with claimed(path), replacing_folder(path) as earlier:
            (earlier / "who").write_text("earlier")
    assert (path / "who").read_text() == "earlier"
    assert [*tmp_path.iterdir()] == [path]
    with claimed(tmp_path / "n-1", new=True), pytest.raises(Taken), claimed(tmp_path / "n-1", new=True):
        pytest.fail("a name that is there is never chosen")


@pytest.mark.parametrize("chosen", ["~nobody-of-this-name", "~nobody-of-this-name/cache"])
def test_a_cache_in_a_home_that_nobody_has_is_refused(monkeypatch: pytest.MonkeyPatch, chosen: str):
    monkeypatch.setenv("TFCLI_CACHE", chosen)
    with pytest.raises(UsageError, match=f"{chosen}.* is not known; set TFCLI_CACHE to a folder"):
        cache_folder()
