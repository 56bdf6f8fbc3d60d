"""Prepared datasets on disk: what is stored, what is counted, what is reused and what is refused."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.fakes import ROLES, FakeDivision, FakeTokenizer, as_any, pairs
from tfcli.data import chunks as pieces
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import prepare
from tfcli.errors import TfcliError, UsageError
from tfcli.records.dataset import DatasetRecord, PartCounts

TEXT = FakeDivision(train=["ab", "c", "é"], validation=["ba"])
PAIRS = FakeDivision(train=pairs(("a", "bc"), ("ab", "é")), validation=pairs(("c", "d")))


def prepared(
    division: FakeDivision, out: Path, tokenizer: FakeTokenizer | None = None, shard_tokens: int = 1000
) -> DatasetRecord:
    return prepare(as_any(division), as_any(tokenizer or FakeTokenizer()), out, shard_tokens=shard_tokens)


def load(path: Path) -> list[int]:
    return np.load(path, mmap_mode="r").tolist()


def test_text_is_stored_between_bos_and_eos(tmp_path: Path) -> None:
    record = prepared(TEXT, tmp_path / "data")
    # a=5, b=6, c=7, é is unknown: 4; <s>=1, </s>=2.
    assert load(tmp_path / "data/train-00000.tokens.npy") == [1, 5, 6, 2, 1, 7, 2, 1, 4, 2]
    assert load(tmp_path / "data/train-00000.offsets.npy") == [0, 4, 7, 10]
    assert load(tmp_path / "data/validation-00000.tokens.npy") == [1, 6, 5, 2]
    # "ab" and </s> are 3 tokens, "c" 2, "é" 2; é has two bytes. Of 4/3 pieces a word on average, two, one and one
    # are 2/3, 1/3 and 1/3 away: √((4 + 1 + 1) / 9 / 3) = 0.4714.
    assert record.train == PartCounts(documents=3, tokens=7, bytes=5, characters=4, unknown=1, words=3, spread=0.4714)
    assert record.validation == PartCounts(documents=1, tokens=3, bytes=2, characters=2, unknown=0, words=1)
    assert (record.kind, record.sources, record.split, record.reused) == (
        "text",
        ("fake.txt",),
        "hash",
        False,
    )


@pytest.mark.parametrize(
    ("start", "stream", "documents"),
    [
        ((), [5, 6, 2, 7, 2, 4, 2], [[0, 3, 5], [3, 5, 7]]),
        ((2,), [2, 5, 6, 2, 7, 2, 4, 2], [[0, 3, 5], [4, 6, 8]]),
        ((3, 1), [3, 1, 5, 6, 2, 3, 1, 7, 2, 3, 1, 4, 2], [[0, 5, 9], [5, 9, 13]]),
    ],
    ids=["nothing in front", "begin = end", "two tokens in front"],
)
def test_text_is_framed_as_its_tokenizer_does(
    start: tuple[int, ...], stream: list[int], documents: list[list[int]], tmp_path: Path
) -> None:
    """ "ab", "c" and "é": where one token begins and ends a text, one of them parts two documents."""
    roles = replace(ROLES, text_start=start)
    record = prepared(TEXT, tmp_path / "data", FakeTokenizer(roles=roles), shard_tokens=4)
    assert record.train.tokens == 7
    view = PreparedDataset.open(tmp_path / "data").text("train")
    assert view.padded(np.array([0]), np.array([len(view)]), 0)[0].tolist() == stream
    assert view.documents.tolist() == documents


def test_pairs_are_stored_side_by_side(tmp_path: Path) -> None:
    record = prepared(PAIRS, tmp_path / "data")
    assert load(tmp_path / "data/train-00000.source.tokens.npy") == [5, 2, 5, 6, 2]
    assert load(tmp_path / "data/train-00000.source.offsets.npy") == [0, 2, 5]
    assert load(tmp_path / "data/train-00000.target.tokens.npy") == [1, 6, 7, 2, 1, 4, 2]
    assert load(tmp_path / "data/train-00000.target.offsets.npy") == [0, 4, 7]
    # Sources 2 + 3 tokens, targets 3 + 2; bytes and characters of the targets "bc" and "é"; four words,
    # of 1.5 pieces on average, each half a piece away.
    assert record.train == PartCounts(documents=2, tokens=10, bytes=4, characters=3, unknown=1, words=4, spread=0.5)


def test_pairs_begin_as_the_roles_say(tmp_path: Path) -> None:
    """As BART's: sources are "<s> ids </s>" and targets "</s> <s> ids </s>"; what begins them counts for nothing."""
    roles = replace(ROLES, source_start=(1,), target_start=(2, 1))
    record = prepared(PAIRS, tmp_path / "data", FakeTokenizer(roles=roles))
    assert load(tmp_path / "data/train-00000.source.tokens.npy") == [1, 5, 2, 1, 5, 6, 2]
    assert load(tmp_path / "data/train-00000.target.tokens.npy") == [2, 1, 6, 7, 2, 2, 1, 4, 2]
    assert record.train == prepared(PAIRS, tmp_path / "plain").train
    assert PreparedDataset.open(tmp_path / "data").manifest.roles == roles
    # Text knows no source and no target.
    prepared(TEXT, tmp_path / "text", FakeTokenizer(roles=roles))
    assert load(tmp_path / "text/train-00000.tokens.npy") == [1, 5, 6, 2, 1, 7, 2, 1, 4, 2]


def test_a_manifest_from_before_the_beginnings_is_read(tmp_path: Path) -> None:
    prepared(PAIRS, tmp_path / "data")
    path = tmp_path / "data/manifest.json"
    values = json.loads(path.read_text())
    values["roles"] = {"pad": 0, "bos": 1, "eos": 2, "mask": 3, "unk": 4}
    path.write_text(json.dumps(values))
    assert PreparedDataset.open(tmp_path / "data").manifest.roles == ROLES


def test_ids_take_two_bytes_up_to_65536_and_four_above(tmp_path: Path) -> None:
    prepared(TEXT, tmp_path / "small", FakeTokenizer(vocab_size=65536))
    prepared(TEXT, tmp_path / "large", FakeTokenizer(vocab_size=65537))
    small = np.load(tmp_path / "small/train-00000.tokens.npy", mmap_mode="r")
    large = np.load(tmp_path / "large/train-00000.tokens.npy", mmap_mode="r")
    offsets = np.load(tmp_path / "small/train-00000.offsets.npy", mmap_mode="r")
    assert (small.dtype, large.dtype, offsets.dtype) == (np.uint16, np.uint32, np.int64)
    assert isinstance(small, np.memmap)


def test_shards_are_cut_between_documents(tmp_path: Path) -> None:
    record = prepared(TEXT, tmp_path / "data", shard_tokens=7)
    # 4 ids are fewer than 7; with the 3 of the second document they are 7, and the shard is full.
    assert load(tmp_path / "data/train-00000.tokens.npy") == [1, 5, 6, 2, 1, 7, 2]
    assert load(tmp_path / "data/train-00001.tokens.npy") == [1, 4, 2]
    assert load(tmp_path / "data/train-00001.offsets.npy") == [0, 3]
    whole = prepared(TEXT, tmp_path / "whole")
    assert (record.train, record.fingerprint) == (whole.train, whole.fingerprint)
    view = PreparedDataset.open(tmp_path / "data").text("train")
    assert view.padded(np.array([0]), np.array([10]), 0).tolist() == [[1, 5, 6, 2, 1, 7, 2, 1, 4, 2]]


def test_a_long_document_is_encoded_in_pieces_and_stored_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces.document_pieces, "__defaults__", (3,))
    monkeypatch.setattr(pieces.batched, "__defaults__", (4,))
    record = prepared(FakeDivision(["ab\ncdefg"], ["a"]), tmp_path / "data")
    # The line end is the 28th letter of the alphabet: 5 + 27. So short a limit cuts the second word in two.
    assert load(tmp_path / "data/train-00000.tokens.npy") == [1, 5, 6, 32, 7, 8, 9, 10, 11, 2]
    assert record.train == PartCounts(documents=1, tokens=9, bytes=8, characters=8, unknown=0, words=3, spread=0.4714)


def test_progress_counts_documents_and_tokens(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    prepare(
        as_any(TEXT),
        as_any(FakeTokenizer()),
        tmp_path / "data",
        progress=lambda documents, tokens: calls.append((documents, tokens)),
    )
    assert calls[-1] == (4, 10)


def test_the_same_dataset_is_reused_and_not_written_again(tmp_path: Path) -> None:
    first = prepared(TEXT, tmp_path / "data")
    before = (tmp_path / "data/manifest.json").stat().st_mtime_ns
    again = prepared(TEXT, tmp_path / "data")
    assert again.reused and not first.reused
    assert (again.fingerprint, again.train) == (first.fingerprint, first.train)
    assert (tmp_path / "data/manifest.json").stat().st_mtime_ns == before


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert prepared(TEXT, tmp_path / "data").train.documents == 3


@pytest.mark.parametrize(
    ("division", "tokenizer", "difference"),
    [
        (TEXT, FakeTokenizer(vocab_size=50), "its tokenizer is"),
        (PAIRS, FakeTokenizer(), "its kind is text, not pairs"),
        (
            FakeDivision(["x"], ["y"], name="other.txt"),
            FakeTokenizer(),
            "its source is fake.txt, not other.txt",
        ),
        (FakeDivision(["x"], ["y"], split="tail"), FakeTokenizer(), "its split is hash, not tail"),
        (FakeDivision(["x"], ["y"]), FakeTokenizer(), "the text, or how it is divided, has changed"),
    ],
)
def test_another_dataset_is_refused_and_left_alone(
    tmp_path: Path, division: FakeDivision, tokenizer: FakeTokenizer, difference: str
) -> None:
    prepared(TEXT, tmp_path / "data")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    with pytest.raises(UsageError, match=difference):
        prepared(division, tmp_path / "data", tokenizer)
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


def test_a_folder_of_other_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/diary.txt").write_text("mine")
    with pytest.raises(UsageError, match="already holds other files; choose another"):
        prepared(TEXT, tmp_path / "notes")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        prepared(TEXT, tmp_path / "notes/diary.txt")
    assert (tmp_path / "notes/diary.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "division",
    [FakeDivision(["a"], []), FakeDivision(["a"], [""]), FakeDivision([""], ["a"]), FakeDivision([], ["a"])],
)
def test_a_part_without_text_is_refused_and_nothing_is_left(tmp_path: Path, division: FakeDivision) -> None:
    with pytest.raises(UsageError, match=r"part of fake\.txt has no text"):
        prepared(division, tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TfcliError("The line failed")])
def test_a_stop_in_the_middle_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    class Failing(FakeTokenizer):
        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            raise error

    with pytest.raises(type(error)):
        prepared(TEXT, tmp_path / "data", Failing())
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_does_not_fit_is_not_wrapped_around(tmp_path: Path) -> None:
    class Lying(FakeTokenizer):
        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            return [[70_000] for _ in texts]

    with pytest.raises(OverflowError):
        prepared(TEXT, tmp_path / "data", Lying())


def test_the_tokenizer_lies_beside_the_data(tmp_path: Path) -> None:
    prepared(TEXT, tmp_path / "data", FakeTokenizer(alphabet="abc"))
    assert (tmp_path / "data/tokenizer.json").read_text() == "abc"


def test_of_two_that_prepare_the_same_the_later_takes_what_is_there(tmp_path: Path) -> None:
    class Overtaken(FakeTokenizer):
        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            prepared(TEXT, tmp_path / "data")
            return super().encode_batch(texts)

    assert prepared(TEXT, tmp_path / "data", Overtaken()).reused
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_manifest_is_plain_json(tmp_path: Path) -> None:
    prepared(TEXT, tmp_path / "data")
    manifest = json.loads((tmp_path / "data/manifest.json").read_text())
    assert manifest["format_version"] == 2
    assert {"pad": 0, "bos": 1, "eos": 2, "mask": 3, "unk": 4}.items() <= manifest["roles"].items()
    tokens = manifest["train"]["shards"][0]["tokens"]
    assert tokens["file"] == "train-00000.tokens.npy"
    assert tokens["size"] == (tmp_path / "data/train-00000.tokens.npy").stat().st_size
