"""Datasets that are added to: the old shards stay, and whoever began on them reads exactly those."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support.fakes import FakeDivision, FakeTokenizer, as_any
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import append, prepare
from tfcli.errors import UsageError
from tfcli.files import Lock
from tfcli.records.dataset import DatasetRecord

OLD = FakeDivision(["ab", "c"], ["ba"])
NEW = FakeDivision(["dd", "e"], ["f"], name="new.txt")


def made(folder: Path) -> DatasetRecord:
    return prepare(as_any(OLD), as_any(FakeTokenizer()), folder)


def added(folder: Path, division: FakeDivision = NEW) -> DatasetRecord:
    return append(as_any(division), as_any(FakeTokenizer()), folder)


def ids(dataset: PreparedDataset, part: str = "train") -> list[int]:
    view = dataset.text(as_any(part))
    return list(view.padded(np.array([0]), np.array([len(view)]), 0)[0].tolist())


def test_documents_are_added_behind_and_the_old_dataset_is_still_there(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    old = made(folder)
    before = {path.name: path.read_bytes() for path in folder.glob("*.npy")}
    record = added(folder)
    assert record.fingerprint != old.fingerprint
    assert (record.train.documents, record.train.tokens) == (4, old.train.tokens + 5)
    assert record.sources == ("fake.txt", "new.txt")
    assert {name: (folder / name).read_bytes() for name in before} == before
    # a=5, b=6 …; <s>=1, </s>=2.
    assert ids(PreparedDataset.open(folder)) == [1, 5, 6, 2, 1, 7, 2, 1, 8, 8, 2, 1, 9, 2]
    assert ids(PreparedDataset.open(folder), "validation") == [1, 6, 5, 2, 1, 10, 2]
    then = PreparedDataset.open(folder, old.fingerprint)
    assert (then.manifest.fingerprint, then.record().train) == (old.fingerprint, old.train)
    assert ids(then) == [1, 5, 6, 2, 1, 7, 2]


def test_the_same_addition_twice_is_made_once(tmp_path: Path) -> None:
    made(tmp_path / "data")
    first = added(tmp_path / "data")
    again = added(tmp_path / "data")
    assert again.reused and again.fingerprint == first.fingerprint and again.train == first.train


def test_several_editions_stay(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    fingerprints = [made(folder).fingerprint, added(folder).fingerprint]
    third = added(folder, FakeDivision(["g"], [], name="third.txt"))
    found = [PreparedDataset.open(folder, one).record().train.documents for one in (*fingerprints, third.fingerprint)]
    assert found == [2, 4, 5]
    assert PreparedDataset.open(folder, "of another").record().fingerprint == third.fingerprint


def test_what_would_move_documents_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "data")
    with pytest.raises(UsageError, match="is divided by tail, where documents that are added would move others"):
        added(tmp_path / "data", FakeDivision(["x"], ["y"], split="tail"))
    with pytest.raises(UsageError, match="was prepared with another tokenizer"):
        append(as_any(NEW), as_any(FakeTokenizer(alphabet="abc")), tmp_path / "data")


def test_a_stop_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "data")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tfcli.data.writer.ChunkWriter.appended", stop)
        with pytest.raises(KeyboardInterrupt):
            added(tmp_path / "data")
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    assert added(tmp_path / "data").train.documents == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(folder: Path, division: FakeDivision, place: str) -> None:
    """Append in a process that is killed at `place`, a function that it calls."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, kill)
            added(folder, division)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


OTHER = FakeDivision(["h", "i"], ["j"], name="other.txt")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process of its own")
@pytest.mark.parametrize(
    "place", ["tfcli.data.writer.ChunkWriter.write", "tfcli.data.writer.ChunkWriter.appended", "tfcli.files._put"]
)
def test_what_a_kill_has_left_is_removed_by_the_next_addition(tmp_path: Path, place: str) -> None:
    """Whether that adds the same text or another one, and however often it was killed."""
    folder = tmp_path / "data"
    made(folder)
    for division in (NEW, OTHER, NEW):
        killed(folder, division, place)
    left = [path.name for path in (*tmp_path.iterdir(), *folder.iterdir()) if path.name.startswith(".")]
    assert len([name for name in left if name.endswith(".chunks")]) == 2
    assert len([name for name in left if name.startswith("..appended.")]) >= 1
    added(folder, OTHER)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert ids(PreparedDataset.open(folder)) == [1, 5, 6, 2, 1, 7, 2, 1, 12, 2, 1, 13, 2]


def test_folders_that_are_not_of_a_kill_or_are_in_use_stay(tmp_path: Path) -> None:
    made(tmp_path / "data")
    digits = "0123456789abcdef"
    others = [f".data2.{digits}.chunks", f".data.{digits}.chunks.old", ".data.mine.chunks", f"data.{digits}.chunks"]
    in_use = tmp_path / f".data.{digits}.chunks"
    abandoned = tmp_path / f".data.{digits[::-1]}.chunks"
    share = tmp_path / f".data.{digits}.0.4.chunks"
    for path in (*(tmp_path / name for name in others), in_use, abandoned, share):
        path.mkdir()
        (path / "0-000000.npz").write_bytes(b"a chunk")
    (tmp_path / "data" / ".mine.tmp").mkdir()
    lock = Lock(in_use, shared=True)
    added(tmp_path / "data")
    lock.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["data", *others, in_use.name])
    assert (tmp_path / "data" / ".mine.tmp").is_dir()
