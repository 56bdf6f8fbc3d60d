"""Opening a prepared dataset: what is read and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fakes import FakeDivision, FakeTokenizer, as_any, pairs
from tfcli.data import dataset as dataset_module
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import prepare
from tfcli.errors import BrokenInputError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    division = FakeDivision(train=["ab", "c", "dd"], validation=["ba"])
    prepare(as_any(division), as_any(FakeTokenizer()), tmp_path / "data", shard_tokens=5)
    return tmp_path / "data"


@pytest.fixture
def pairs_folder(tmp_path: Path) -> Path:
    division = FakeDivision(train=pairs(("a", "bc"), ("ab", "c"), ("", "d")), validation=pairs(("c", "d")))
    prepare(as_any(division), as_any(FakeTokenizer()), tmp_path / "pairs", shard_tokens=7)
    return tmp_path / "pairs"


def test_text_reads_across_shards(folder: Path) -> None:
    view = PreparedDataset.open(folder).text("train")
    # Shards [1 5 6 2 1 7 2] and [1 8 8 2].
    assert len(view) == 11
    assert view.padded(np.array([0, 5, 7]), np.array([4, 4, 4]), 0).tolist() == [
        [1, 5, 6, 2],
        [7, 2, 1, 8],
        [1, 8, 8, 2],
    ]


def test_pairs_read_across_shards(pairs_folder: Path) -> None:
    view = PreparedDataset.open(pairs_folder).pairs("train")
    assert len(list(pairs_folder.glob("train-*.source.tokens.npy"))) == 2
    assert len(view) == 3
    # Sources "a </s>", "ab </s>" and "</s>", by number and padded with 0.
    assert view.source.padded(np.array([2, 0, 1]), pad=0).tolist() == [[2, 0, 0], [5, 2, 0], [5, 6, 2]]
    assert view.target.lengths.tolist() == [4, 3, 3]


def test_shards_stay_on_disk(folder: Path) -> None:
    dataset = PreparedDataset.open(folder)
    array = dataset._load(dataset.manifest.train.shards[0]["tokens"])
    assert isinstance(array.base, np.memmap)
    assert not array.flags.writeable


def test_the_record_is_that_of_the_manifest(folder: Path) -> None:
    record = PreparedDataset.open(folder).record()
    assert (record.path, record.kind, record.vocab_size) == (str(folder), "text", 40)
    assert (record.train.documents, record.validation.tokens) == (3, 3)


def test_the_other_kind_is_refused(folder: Path, pairs_folder: Path) -> None:
    with pytest.raises(UsageError, match="holds text, not pairs; an encoder-decoder needs pairs"):
        PreparedDataset.open(folder).pairs("train")
    with pytest.raises(UsageError, match="holds pairs, not text"):
        PreparedDataset.open(pairs_folder).text("train")


def test_another_tokenizer_is_refused(folder: Path) -> None:
    dataset = PreparedDataset.open(folder)
    dataset.require_tokenizer(as_any(FakeTokenizer()))
    other = FakeTokenizer(vocab_size=41)
    with pytest.raises(UsageError, match=f"another tokenizer .*, not {other.fingerprint}"):
        dataset.require_tokenizer(as_any(other))


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        PreparedDataset.open(tmp_path / "none")
    with pytest.raises(UsageError, match=r"no prepared dataset, it has no manifest\.json"):
        PreparedDataset.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        PreparedDataset.open(tmp_path / "file")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_refused(folder: Path, version: Any) -> None:
    _edit(folder, lambda manifest: manifest.update(format_version=version))
    with pytest.raises(UsageError, match=f"has format version {version!r}, and this tfcli reads 1"):
        PreparedDataset.open(folder)


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (lambda manifest: manifest.pop("train"), "damaged at train"),
        (lambda manifest: manifest["roles"].update(pad="x"), "damaged at roles.pad"),
        (
            lambda manifest: manifest["validation"]["shards"][0]["tokens"].pop("size"),
            "damaged at validation.shards",
        ),
        (
            lambda manifest: manifest["train"]["shards"][0]["tokens"].update(file="../x.npy"),
            "outside its folder",
        ),
    ],
)
def test_a_damaged_manifest_is_refused(folder: Path, damage: Callable[[dict[str, Any]], None], where: str) -> None:
    _edit(folder, damage)
    with pytest.raises(BrokenInputError, match=where):
        PreparedDataset.open(folder)


def test_a_manifest_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    with pytest.raises(BrokenInputError, match="not valid JSON"):
        PreparedDataset.open(folder)


def test_a_missing_truncated_or_changed_shard_is_refused(folder: Path) -> None:
    shard = folder / "train-00001.tokens.npy"
    good = shard.read_bytes()
    shard.write_bytes(good[:-2])
    with pytest.raises(BrokenInputError, match=f"has {len(good) - 2} bytes where {len(good)} were written"):
        PreparedDataset.open(folder)
    shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(BrokenInputError, match=r"train-00001\.tokens\.npy has changed since it was written"):
        PreparedDataset.open(folder)
    shard.unlink()
    with pytest.raises(BrokenInputError, match="is missing"):
        PreparedDataset.open(folder)
    shard.write_bytes(good)
    PreparedDataset.open(folder)


def test_of_a_large_dataset_sizes_alone_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "DIGESTED_BYTES", 0)
    shard = folder / "train-00001.tokens.npy"
    good = shard.read_bytes()
    shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    PreparedDataset.open(folder)
    shard.write_bytes(good[:-2])
    with pytest.raises(BrokenInputError, match="bytes where"):
        PreparedDataset.open(folder)


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
