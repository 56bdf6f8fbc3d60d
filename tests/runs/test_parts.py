"""Tensors in parts: every element is covered by the files, once, or they are refused."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tfcli.errors import BrokenInputError
from tfcli.runs.weights import _require_covered, load_sharded

MATRIX = torch.arange(24.0).reshape(6, 4)
BIAS = torch.arange(3.0)


def part(folder: Path, number: int, **tensors: tuple[Tensor, list[int]]) -> Path:
    """A file of one process, as `torch.distributed.checkpoint` writes it: tensors with the places they begin at."""
    places = {name: {"saved_offsets": begin} for name, (_, begin) in tensors.items()}
    file = folder / f"shard-{number:05d}-model-00001-of-00001.safetensors"
    values = {name: tensor.contiguous() for name, (tensor, _) in tensors.items()}
    save_file(values, file, {"DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0"})
    return file


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Of three processes: two rows each of a matrix; of a bias, the last one has nothing."""
    return [
        part(tmp_path, 1, matrix=(MATRIX[:2], [0, 0]), bias=(BIAS[:2], [0])),
        part(tmp_path, 2, matrix=(MATRIX[2:4], [2, 0]), bias=(BIAS[2:], [2])),
        part(tmp_path, 3, matrix=(MATRIX[4:], [4, 0]), bias=(BIAS[:0], [3])),
    ]


LIKE = {"matrix": torch.empty(6, 4), "bias": torch.empty(3)}


def refused(folder: Path, words: str) -> None:
    with pytest.raises(BrokenInputError, match=words):
        load_sharded(folder, LIKE)


def test_parts_that_are_all_there_are_the_whole(tmp_path: Path, files: list[Path]):
    for tensors in (load_sharded(tmp_path), load_sharded(tmp_path, LIKE)):
        assert torch.equal(tensors["matrix"], MATRIX)
        assert torch.equal(tensors["bias"], BIAS)


@pytest.mark.parametrize(
    ("missing", "words"),
    [(0, "of the 24 numbers"), (1, "of the 24 numbers"), (2, r"has the shape \(4, 4\), not \(6, 4\)")],
)
def test_a_missing_file_is_refused(tmp_path: Path, files: list[Path], missing: int, words: str):
    """The library would leave its rows as whatever was in memory."""
    files[missing].unlink()
    refused(tmp_path, words)
    if missing < 2:  # without the last one, the rows that are left are a smaller whole: the model tells
        with pytest.raises(BrokenInputError, match="a file is missing"):
            load_sharded(tmp_path)


def test_files_that_hold_an_element_twice_are_refused(tmp_path: Path, files: list[Path]):
    (tmp_path / "shard-00009-model-00001-of-00001.safetensors").write_bytes(files[1].read_bytes())
    refused(tmp_path, "hold some numbers of the tensor 'matrix' twice: a file is missing, or not its own")


def test_as_many_numbers_as_there_should_be_are_not_enough(tmp_path: Path, files: list[Path]):
    """Two rows are there twice, and two never: together the number of all."""
    part(tmp_path, 2, matrix=(MATRIX[3:5], [3, 0]), bias=(BIAS[2:], [2]))
    refused(tmp_path, "hold some numbers of the tensor 'matrix' twice: a file is missing, or not its own")


def test_parts_that_are_cut_both_ways_are_held_against_each_other(tmp_path: Path):
    for number, (rows, columns) in enumerate(((0, 0), (0, 2), (3, 0), (3, 2)), start=1):
        part(tmp_path, number, matrix=(MATRIX[rows : rows + 3, columns : columns + 2], [rows, columns]))
    assert torch.equal(load_sharded(tmp_path)["matrix"], MATRIX)
    part(tmp_path, 3, matrix=(MATRIX[2:5, :2], [2, 0]))
    with pytest.raises(BrokenInputError, match="twice"):
        load_sharded(tmp_path)


def test_thousands_of_parts_are_looked_at_in_a_moment():
    """Each one held against every other would take a minute."""
    chunks = [SimpleNamespace(offsets=(2 * row, 0), sizes=(2, 8)) for row in range(8000)]
    stored = SimpleNamespace(size=torch.Size((16_000, 8)), chunks=chunks)
    began = time.process_time()
    _require_covered(Path("parts"), "matrix", stored)  # type: ignore[arg-type]
    assert time.process_time() - began < 2


def test_a_tensor_that_no_file_has_is_refused(tmp_path: Path, files: list[Path]):
    with pytest.raises(BrokenInputError, match="lacks the tensor 'gain'"):
        load_sharded(tmp_path, {**LIKE, "gain": torch.empty(2)})


@pytest.mark.parametrize("all_of_them", [False, True])
def test_another_type_is_refused(tmp_path: Path, files: list[Path], all_of_them: bool):
    """In one of the files, or in all: the library would convert integers as if they were weights."""
    for number, (begin, end) in enumerate(((0, 2), (2, 4), (4, 6)), start=1):
        if all_of_them or number == 2:
            part(tmp_path, number, matrix=(MATRIX[begin:end].int(), [begin, 0]), bias=(BIAS[:1], [number - 1]))
    refused(tmp_path, "'matrix' is of the type")


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02" + bytes(7) + b"{}"])
def test_rubbish_is_refused(tmp_path: Path, files: list[Path], content: bytes):
    files[1].write_bytes(content)
    with pytest.raises(BrokenInputError):
        load_sharded(tmp_path, LIKE)
    with pytest.raises(BrokenInputError):
        load_sharded(tmp_path)


def test_rubbish_about_the_places_is_refused(tmp_path: Path, files: list[Path]):
    save_file({"matrix": MATRIX[2:4]}, files[1], {"DCP_SHARDING_INFO": "[[["})
    refused(tmp_path, "is damaged")
