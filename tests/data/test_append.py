"""Datasets that are added to: the old shards stay, and whoever began on them reads exactly those."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.fakes import FakeDivision, FakeTokenizer, as_any
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import append, prepare
from tfcli.errors import UsageError
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
