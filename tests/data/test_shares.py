"""Shares from elsewhere: checked before anything is made of them, refused in one sentence, and left as they are."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.test_mixture import mixture
from tests.support.fakes import FakeDivision, FakeTokenizer, as_any
from tfcli.data.chunks import Share
from tfcli.data.prepare import merge, prepare, prepare_share
from tfcli.errors import BrokenInputError

DIVISION = FakeDivision(["ab", "c", "dd", "e", "f"], ["ba", "g"])
MIXTURE = mixture(DIVISION, FakeDivision(["x", "yy"], ["w"], name="two"), weights=(1, 1))
CHUNK = "0-000000.npz"


@pytest.fixture(autouse=True)
def fake_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfcli.data.prepare.load_tokenizer", lambda _: FakeTokenizer())


def share(folder: Path, division: FakeDivision = DIVISION) -> Path:
    prepare_share(as_any(division), as_any(FakeTokenizer()), folder, Share(0, 1))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def require_refused(folder: Path, sentence: str) -> None:
    """Merging is refused, nothing is made, and the share has the files that it had."""
    before = content(folder)
    with pytest.raises(BrokenInputError) as refused:
        merge([folder], folder.with_name("out"))
    assert sentence in str(refused.value)
    assert f"prepare the share {folder} again." in str(refused.value)
    assert content(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]


def edit_json(folder: Path, **values: Any) -> None:
    path = folder / "share.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"chunks": [0]}, f"{CHUNK} is no chunk of the share"),
        ({"chunks": [10**9]}, "has 1 of the 1000000000 chunks of its share"),
        ({"chunks": [10**40]}, "is damaged at chunks"),
        ({"chunks": [-1]}, "is damaged at chunks, of which one source has -1"),
        ({"chunks": []}, "is damaged at chunks, which are of 0 sources"),
        ({"chunks": [1, 0]}, "is damaged at chunks, which are of 2 sources"),
        ({"share": {"number": 0, "of": 0}}, "is damaged at share.of, which is 0"),
        ({"share": {"number": 0, "of": 10**12}}, "is damaged at share.of"),
        ({"share": {"number": -1, "of": 1}}, "is damaged at share.number, which is -1"),
        ({"kind": "classify"}, "is damaged at kind, which is classify"),
        ({"kind": "pairs"}, f"{CHUNK} is damaged (it has no array 'train.target.ends')"),
        ({"skipped": {"count": -3, "first": []}}, "is damaged at skipped.count, which is -3"),
        ({"removed": {"short": -1}}, "is damaged at removed.short, which is -1"),
    ],
)
def test_a_share_that_contradicts_itself_is_refused(tmp_path: Path, values: dict[str, Any], sentence: str) -> None:
    folder = share(tmp_path / "share")
    edit_json(folder, **values)
    require_refused(folder, sentence)


@pytest.mark.parametrize(
    ("weight", "max_epochs", "sentence"),
    [
        (0.0, None, "is damaged at mixture, of which a weight is 0.0"),
        (-1.0, None, "is damaged at mixture, of which a weight is -1.0"),
        (1.0, 0, "is damaged at mixture, of which max_epochs is 0"),
    ],
)
def test_a_mixture_of_nonsense_is_refused(tmp_path: Path, weight: float, max_epochs: int | None, sentence: str) -> None:
    folder = share(tmp_path / "share", MIXTURE)
    first, second = json.loads((folder / "share.json").read_text())["mixture"]
    edit_json(folder, mixture=[first, second | {"weight": weight, "max_epochs": max_epochs}])
    require_refused(folder, sentence)


def rewritten(folder: Path, change: Callable[[dict[str, np.ndarray]], Any], **how: Any) -> None:
    """Write the chunk anew, with other arrays or by another method."""
    with np.load(folder / CHUNK) as arrays:
        values = dict(arrays)
    change(values)
    with zipfile.ZipFile(folder / CHUNK, "w", **how) as archive:
        for name, array in values.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())


def put(name: str, place: Any, value: int) -> Callable[[dict[str, np.ndarray]], None]:
    def change(values: dict[str, np.ndarray]) -> None:
        values[name] = values[name].copy()
        values[name][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("train.sums", (0, 0), 10**9), "train.sums counts 1000000004 documents, and 5 end there"),
        (put("train.sums", (0, 1), 10**9), "train.sums counts 1000000009 tokens, and there are"),
        (put("train.sums", (0, 2), 0), "train.sums counts 7 characters in 5 bytes"),
        (put("train.sums", (0, 4), -1), "train.sums has a number that no text brings"),
        (put("train.sums", (0, 7), 2**62), "train.sums has a number that no text brings"),
        (put("train..ends", 0, 10**12), "train..ends are not in order"),
        (put("train..ends", 0, -1), "train..ends are not in order"),
        (put("validation..ids", 1, 40), "validation..ids has the id 40, and the tokenizer has 40"),
        (lambda values: values.update({"train..ids": np.zeros(17)}), "train..ids has the type float64"),
        (lambda values: values.pop("train.sums"), "it has no array 'train.sums'"),
        (lambda values: values.update({"train.sums": np.zeros((0, 10), np.int64)}), "train.sums has the type"),
    ],
)
def test_a_chunk_with_numbers_of_no_text_is_refused(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any], sentence: str
) -> None:
    folder = share(tmp_path / "share")
    rewritten(folder, change)
    require_refused(folder, sentence)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_chunk_that_is_compressed_is_refused(tmp_path: Path, method: int) -> None:
    folder = share(tmp_path / "share")
    rewritten(folder, lambda _: None, compression=method)
    require_refused(folder, "is compressed or encrypted")


def test_a_chunk_of_a_method_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    data = bytearray((folder / CHUNK).read_bytes())
    place = data.index(b"PK\x01\x02")  # of the central directory: the method is at 10 (APPNOTE.TXT, 4.3.12)
    while place >= 0:
        data[place + 10] = 77
        place = data.find(b"PK\x01\x02", place + 1)
    (folder / CHUNK).write_bytes(data)
    require_refused(folder, "is compressed or encrypted")


def test_a_header_that_asks_for_a_huge_array_is_refused_without_making_it(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    with np.load(folder / CHUNK) as arrays:
        values = dict(arrays)
    with zipfile.ZipFile(folder / CHUNK, "w") as archive:
        for name, array in values.items():
            stream = io.BytesIO()
            shape = (10**13,) if name == "train..ids" else array.shape
            header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            archive.writestr(f"{name}.npy", stream.getvalue() + array.tobytes())
    require_refused(folder, f"{CHUNK} is damaged (cannot reshape array")


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip file at all" * 20])
def test_a_chunk_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    folder = share(tmp_path / "share")
    (folder / CHUNK).write_bytes(data)
    require_refused(folder, f"{CHUNK} is damaged (File is not a zip file)")


def test_a_chunk_with_one_wrong_byte_is_refused(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    data = bytearray((folder / CHUNK).read_bytes())
    data[data.index(b"NUMPY") + 130] ^= 1  # among the ids: those of zip compare a checksum
    (folder / CHUNK).write_bytes(data)
    require_refused(folder, "Bad CRC-32")


def test_a_chunk_that_is_missing_or_too_many_is_refused(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    (folder / CHUNK).rename(folder / "0-000007.npz")
    require_refused(folder, f"{folder / CHUNK} is missing")
    (folder / "0-000007.npz").unlink()
    require_refused(folder, "has 0 of the 1 chunks of its share")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_chunk_that_is_a_pipe_is_missing(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    (folder / CHUNK).unlink()
    os.mkfifo(folder / CHUNK)
    with pytest.raises(BrokenInputError) as refused:
        merge([folder], folder.with_name("out"))
    assert "has 0 of the 1 chunks of its share" in str(refused.value)


def test_a_sound_share_is_merged_and_stays(tmp_path: Path) -> None:
    folder = share(tmp_path / "share", MIXTURE)
    before = content(folder)
    whole = prepare(as_any(MIXTURE), as_any(FakeTokenizer()), tmp_path / "whole")
    assert merge([folder], tmp_path / "out").train == whole.train
    assert content(folder) == before
