"""Opening a prepared dataset: what is read and what is refused."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fakes import FakeDivision, FakeTokenizer, as_any, pairs
from tfcli.corpora import PARTS
from tfcli.data import shards
from tfcli.data.dataset import PreparedDataset, TokenStreamView
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
    array = PreparedDataset.open(folder).text("train")._shards[0][:].base
    assert array is not None
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


@pytest.mark.parametrize("version", [0, 4, "1", None])
def test_another_format_version_is_refused(folder: Path, version: Any) -> None:
    _edit(folder, lambda manifest: manifest.update(format_version=version))
    with pytest.raises(UsageError, match=f"has format version {version!r}, and this tfcli reads 3 or 2 or 1"):
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
    view = PreparedDataset.open(folder).text("train")
    with pytest.raises(BrokenInputError, match=r"train-00001\.tokens\.npy has changed since it was written"):
        read(view, len(view))
    read(view, 7)  # the first shard is whole
    shard.unlink()
    with pytest.raises(BrokenInputError, match="is missing"):
        PreparedDataset.open(folder)
    shard.write_bytes(good)
    PreparedDataset.open(folder)


def test_opening_reads_no_numbers(folder: Path) -> None:
    """Of a file of 4 GB (without a single block on the disk) the header is read, and nothing else."""
    shard = folder / "train-00001.tokens.npy"
    ids = (1 << 32) // 2
    put(folder, "train-00001.tokens.npy", np.array([1, 8, 8, 2], np.uint16), shape=f"({ids},)")
    with shard.open("r+b") as file:
        file.truncate(128 + 2 * ids)
    _edit(folder, lambda manifest: stored(manifest, shard.name).update(size=128 + 2 * ids))
    put(folder, "train-00001.offsets.npy", np.array([0, ids], np.int64))
    _edit(folder, lambda manifest: manifest["train"]["counts"].update(tokens=5 + ids - 1))
    began = time.perf_counter()
    view = PreparedDataset.open(folder).text("train")
    assert len(view) == 7 + ids
    assert time.perf_counter() - began < 0.5


def read(view: TokenStreamView, tokens: int) -> None:
    """The first tokens of a stream, in one window."""
    view.padded(np.array([0]), np.array([tokens]), 0)


def stored(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """What a manifest says of a file."""
    shards = manifest["train"]["shards"] + manifest["validation"]["shards"]
    return next(array for shard in shards for array in shard.values() if array["file"] == name)


def put(folder: Path, name: str, array: Any, shape: str | None = None) -> None:
    """Write an array, whatever it holds, and have the manifest vouch for it."""
    np.save(folder / name, array)
    if shape is not None:
        content = (folder / name).read_bytes()
        told = f"'shape': {array.shape}".encode()
        assert told in content
        as_told = f"'shape': {shape}".encode()
        content = content.replace(told, as_told, 1).replace(b" " * (len(as_told) - len(told)) + b"\n", b"\n", 1)
        (folder / name).write_bytes(content)
    content = (folder / name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    _edit(folder, lambda manifest: stored(manifest, name).update(size=len(content), digest=digest))


IDS, OFFSETS = "train-00000.tokens.npy", "train-00000.offsets.npy"


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        (IDS, np.array([1, 5, 6, 2, 1, 7, 2], np.float32), "no array of one dimension and type <u2"),
        (IDS, np.array([1, 5, 6, 2, 1, 7, 2], np.float16), "no array of one dimension and type <u2"),
        (IDS, np.array([1, 5, 6, 2, 1, 7, 2], np.int16), "no array of one dimension and type <u2"),
        (IDS, np.array([1, 5, 6, 2, 1, 7, 2], np.uint32), "no array of one dimension and type <u2"),
        (IDS, np.array([1, 5, 6, 2, 1, 7, 2], ">u2"), "no array of one dimension and type <u2"),
        (IDS, np.array(["a", "b"]), "no array of one dimension and type <u2"),
        (IDS, np.array([True] * 7), "no array of one dimension and type <u2"),
        (IDS, np.zeros(7, [("a", "<u2")]), "no array of one dimension and type <u2"),
        (IDS, np.zeros((7, 1), np.uint16), "no array of one dimension and type <u2"),
        (IDS, np.asfortranarray(np.zeros((7, 2), np.uint16)), "no array of one dimension and type <u2"),
        (IDS, np.array(7, np.uint16), "no array of one dimension and type <u2"),
        (IDS, np.array([None, {}]), "no array of one dimension and type <u2"),
        (IDS, np.array([1, 5, 6, 2, 1, 7], np.uint16), "holds 3 documents of 7 tokens, and .* tells of 3 of 8"),
        (IDS, np.array([], np.uint16), "holds 3 documents of 1 tokens, and .* tells of 3 of 8"),
        (OFFSETS, np.array([0.0, 4.0, 7.0]), "no array of one dimension and type <i8"),
        (OFFSETS, np.array([0, 4, 7], np.uint64), "no array of one dimension and type <i8"),
        (OFFSETS, np.array([0, 7]), "holds 2 documents of 9 tokens, and .* tells of 3 of 8"),
        (OFFSETS, np.array([0]), "tells of no document"),
        (OFFSETS, np.array([], np.int64), "tells of no document"),
    ],
    ids=repr,
)
def test_an_array_that_the_manifest_vouches_for_and_cannot_be_is_refused_on_opening(
    folder: Path, name: str, array: Any, sentence: str
) -> None:
    put(folder, name, array)
    with pytest.raises(BrokenInputError, match=sentence):
        PreparedDataset.open(folder)


@pytest.mark.parametrize("shape", ["(6,)", "(8,)", "(-7,)", "(7,7)", "(7.0,)", "(True,)", "(9" + "9" * 20 + ",)", "7"])
def test_a_header_that_tells_of_other_numbers_is_refused(folder: Path, shape: str) -> None:
    put(folder, IDS, np.array([1, 5, 6, 2, 1, 7, 2], np.uint16), shape)
    with pytest.raises(BrokenInputError, match=r"no array|numbers that its header tells of"):
        PreparedDataset.open(folder)


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        (IDS, np.array([1, 5, 40, 2, 1, 7, 2], np.uint16), "holds the id 40, and its tokenizer has 40"),
        (IDS, np.full(7, 65535, np.uint16), "holds the id 65535, and its tokenizer has 40"),
        (OFFSETS, np.array([0, -4, 7]), "has offsets outside the 7 ids"),
        (OFFSETS, np.array([-1, 4, 7]), "has offsets outside the 7 ids"),
        (OFFSETS, np.array([0, 4, 8]), "has offsets outside the 7 ids"),
        (OFFSETS, np.array([0, 1 << 62, 7]), "has offsets outside the 7 ids"),
        (OFFSETS, np.array([0, -(1 << 63), 7]), "has offsets outside the 7 ids"),
        (OFFSETS, np.array([7, 4, 0]), "has documents of fewer than 2 ids"),
        (OFFSETS, np.array([0, 7, 7]), "has documents of fewer than 2 ids"),
        (OFFSETS, np.array([0, 1, 7]), "has documents of fewer than 2 ids"),
        (OFFSETS, np.array([1, 4, 7]), "does not go from 0 to the 7 ids"),
        (OFFSETS, np.array([0, 4, 6]), "does not go from 0 to the 7 ids"),
    ],
    ids=repr,
)
def test_numbers_that_cannot_be_are_refused_before_any_of_the_shard_is_used(
    folder: Path, name: str, array: Any, sentence: str
) -> None:
    put(folder, name, array)
    view = PreparedDataset.open(folder).text("train")
    for _ in range(2):
        with pytest.raises(BrokenInputError, match=sentence):
            read(view, 1)
    if name == OFFSETS:
        with pytest.raises(BrokenInputError, match=sentence):
            _ = view.offsets


def test_every_chunk_of_a_file_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bytes at a time: the id that is too large comes in the second chunk, which is no whole one."""
    monkeypatch.setattr(shards, "_CHUNK", 8)
    view = PreparedDataset.open(folder).text("train")
    read(view, len(view))
    put(folder, IDS, np.array([1, 5, 6, 2, 1, 40, 2], np.uint16))
    with pytest.raises(BrokenInputError, match="holds the id 40"):
        read(PreparedDataset.open(folder).text("train"), 1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_pairs_are_compared_as_text_is(pairs_folder: Path, side: str) -> None:
    name = f"train-00000.{side}.offsets.npy"
    offsets = np.load(pairs_folder / name)
    put(pairs_folder, name, offsets[::-1])
    with pytest.raises(BrokenInputError, match=f"{side}.offsets.npy has documents of fewer than"):
        PreparedDataset.open(pairs_folder).pairs("train")
    put(pairs_folder, name, np.array([*offsets[:-1], offsets[-1] - 1, offsets[-1]]))
    with pytest.raises(BrokenInputError, match=r"documents of .* tokens, and manifest\.json tells of 3 of"):
        PreparedDataset.open(pairs_folder).pairs("train")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m["train"].update(shards=[]), "train.shards, which are none"),
        (lambda m: m["validation"]["shards"].append(m["validation"]["shards"][0]), "outside its folder or not that of"),
        (lambda m: m["train"]["shards"].reverse(), "outside its folder or not that of train.shards.0.tokens"),
        (lambda m: m["train"]["shards"][0].pop("offsets"), "train.shards.0: text have offsets and tokens"),
        (lambda m: m.update(kind="pairs"), "pairs have source.offsets"),
        (lambda m: m.update(kind="music"), "damaged at kind"),
        (lambda m: m.update(vocab_size=0), "damaged at vocab_size, which is 0"),
        (lambda m: m.update(vocab_size=10**400), "damaged at vocab_size, which is 10*…"),
        (lambda m: m.update(vocab_size=2), "damaged at roles: there is no id 2 among 2"),
        (lambda m: m.update(vocab_size=70_000), "no array of one dimension and type <u4"),
        (lambda m: m["roles"].update(pad=-1), "damaged at roles: there is no id -1"),
        (lambda m: m["roles"].update(target_start=[]), "damaged at roles.target_start"),
        (lambda m: m["roles"].update(source_start=[99]), "damaged at roles: there is no id 99"),
        (lambda m: m["train"]["counts"].update(documents=2), "holds 3 documents of 8 tokens, and .* tells of 2 of 8"),
        (lambda m: m["train"]["counts"].update(documents=10**300, tokens=10**300), r"tells of 10{79}… of 10{79}…;"),
        (lambda m: m["train"]["counts"].update(tokens=-1), "counts.documents, which is 3"),
        (lambda m: m["train"]["counts"].update(characters=0), "counts.characters, which is 0"),
        (lambda m: m["train"]["counts"].update(bytes=10**9), "counts.bytes, which is 1000000000"),
        (lambda m: m["train"]["counts"].update(unknown=9), "counts.unknown, which is 9"),
        (lambda m: m["train"]["counts"].update(tokens="nan"), "damaged at train.counts.tokens"),
        (lambda m: stored(m, IDS).update(digest=""), "damaged at train.shards.0.tokens.digest"),
        (lambda m: stored(m, IDS).update(file="\ud800.npy"), "half a surrogate pair"),
        (lambda m: stored(m, IDS).update(size=-1), "has 142 bytes where -1 were written"),
        *(
            (lambda m, name=name: stored(m, IDS).update(file=name), "outside its folder or not that of")
            for name in (
                "",
                ".",
                "..",
                "/dev/zero",
                "a/b.npy",
                "x" * 5000,
                "a\0b.npy",
                "manifest.json",
                OFFSETS,
            )
        ),
    ],
)
def test_a_manifest_that_contradicts_itself_or_the_files_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    _edit(folder, change)
    with pytest.raises(BrokenInputError, match=sentence) as caught:
        PreparedDataset.open(folder)
    assert len(str(caught.value)) < 600 + len(str(folder)) * 3


def test_a_folder_or_a_pipe_in_the_place_of_a_shard_is_refused(folder: Path) -> None:
    (folder / IDS).unlink()
    os.mkfifo(folder / IDS)
    with pytest.raises(BrokenInputError, match="is no file"):
        PreparedDataset.open(folder)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_done_to_a_file_is_one_sentence_or_none(folder: Path, data: st.DataObject) -> None:
    """A few bytes of any file changed, those of the arrays vouched for or not: read in full, or refused."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    file = data.draw(st.sampled_from(sorted(path for path in copy.iterdir() if path.name != "tokenizer.json")))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([None, None, None, -1, -8, 128, 10]))]
    file.write_bytes(content)
    if file.suffix == ".npy" and data.draw(st.booleans()):
        digest = hashlib.sha256(content).hexdigest()[:16]
        _edit(copy, lambda manifest: stored(manifest, file.name).update(size=len(content), digest=digest))
    message = ""
    try:
        dataset = PreparedDataset.open(copy)
        for part in PARTS:
            view = dataset.text(part)
            read(view, len(view))
            offsets = view.offsets
            assert offsets[0] == 0 and offsets[-1] == len(view) and np.diff(offsets).min() >= 2
            assert view.padded(np.array([0]), np.array([len(view)]), 0).max() < dataset.manifest.vocab_size
    except (BrokenInputError, UsageError) as error:
        message = str(error)
    assert "\n" not in message


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
