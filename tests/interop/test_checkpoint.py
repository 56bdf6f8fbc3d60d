"""Checkpoint folders: every form of weights, and whatever can be wrong with them."""

import json
import os
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.interop.checkpoint import Checkpoint, read_checkpoint

CONFIG = {"model_type": "gpt2", "vocab_size": 3}
ONE, TWO = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([4.0])
INDEX = "model.safetensors.index.json"


def folder(path: Path, config: Any = CONFIG) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    return path


def indexed(path: Path, weight_map: Mapping[str, Any], shards: Mapping[str, dict[str, Tensor]]) -> Path:
    folder(path)
    (path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    for name, tensors in shards.items():
        save_file(tensors, path / name)
    return path


def refusal(kind: type[TfcliError], path: Path, *parts: str) -> str:
    """The one sentence with which a folder is refused."""
    with pytest.raises(kind) as caught:
        read_checkpoint(path)
    sentence = str(caught.value)
    assert type(caught.value) is kind
    assert sentence.endswith(".") and "\n" not in sentence and sentence.isprintable(), sentence
    for part in parts:
        assert part in sentence, sentence
    return sentence


def equal(found: Checkpoint, expected: dict[str, Tensor]) -> bool:
    tensors = found.tensors
    return tensors.keys() == expected.keys() and all(torch.equal(tensors[name], expected[name]) for name in expected)


def save_bin(path: Path, value: Any) -> None:
    torch.save(value, path)


def test_one_safetensors_file(tmp_path: Path) -> None:
    save_file({"a": ONE, "b": TWO}, folder(tmp_path) / "model.safetensors")
    found = read_checkpoint(tmp_path)
    assert equal(found, {"a": ONE, "b": TWO})
    assert (found.values, found.folder) == (CONFIG, tmp_path)
    assert found.weights_file == tmp_path / "model.safetensors"
    assert found.config.integer("vocab_size") == 3


def test_a_weights_only_pickle(tmp_path: Path) -> None:
    save_bin(folder(tmp_path) / "pytorch_model.bin", {"a": ONE, "b": TWO})
    assert equal(read_checkpoint(tmp_path), {"a": ONE, "b": TWO})
    # safetensors beside it come first.
    save_file({"a": TWO}, tmp_path / "model.safetensors")
    assert equal(read_checkpoint(tmp_path), {"a": TWO})


def test_a_pickle_of_the_old_format_and_tied_tensors(tmp_path: Path) -> None:
    tied = torch.arange(6.0).reshape(2, 3)
    values = {"a": tied, "b": tied, "row": tied[1], "turned": tied.T}
    torch.save(values, folder(tmp_path) / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert equal(read_checkpoint(tmp_path), values)


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards(tmp_path: Path, suffix: str) -> None:
    save: Callable[[dict[str, Tensor], Path], None] = (
        save_file if suffix == "safetensors" else lambda tensors, path: save_bin(path, tensors)
    )
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = [f"{stem}-0000{n}-of-00002.{suffix}" for n in (1, 2)]
    save({"a": ONE}, folder(tmp_path) / names[0])
    save({"b": TWO}, tmp_path / names[1])
    index = tmp_path / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"weight_map": {"a": names[0], "b": names[1]}}))
    found = read_checkpoint(tmp_path)
    assert equal(found, {"a": ONE, "b": TWO})
    assert found.weights_file == index


def test_types_are_widened_to_float32_and_whole_numbers_kept(tmp_path: Path) -> None:
    third = torch.tensor([1 / 3])
    kinds = [torch.float16, torch.bfloat16, torch.float64]
    whole = {"ids": torch.tensor([1, 2]), "mask": torch.tensor([True]), "byte": torch.tensor([7], dtype=torch.uint8)}
    floats = {str(kind): third.to(kind) for kind in kinds}
    save_file({**floats, **whole}, folder(tmp_path) / "model.safetensors")
    # 1/3 to 11, 8 and 24 bits of precision.
    widened = {"torch.float16": 1365 / 4096, "torch.bfloat16": 171 / 512, "torch.float64": 11184811 / 33554432}
    expected = {name: torch.tensor([value]) for name, value in widened.items()}
    assert equal(read_checkpoint(tmp_path), expected | whole)


def test_a_snapshot_of_the_hubs_cache_is_a_folder_of_links(tmp_path: Path) -> None:
    repository = tmp_path / "hub/models--owner--name"
    (repository / "blobs").mkdir(parents=True)
    snapshot = repository / "snapshots/0123abcd"
    source = indexed(tmp_path / "made", {"a": "model-1.safetensors"}, {"model-1.safetensors": {"a": ONE}})
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(source.iterdir())):
        file.rename(repository / f"blobs/{number}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert equal(read_checkpoint(snapshot), {"a": ONE})
    # A blobs folder elsewhere is no part of the cache.
    plain = tmp_path / "plain/snapshots/0123abcd"
    plain.parent.mkdir(parents=True)
    snapshot.rename(plain)
    (tmp_path / "blobs").symlink_to(repository / "blobs")
    (tmp_path / "plain/blobs").symlink_to(repository / "blobs")
    refusal(BrokenInputError, plain, INDEX, "'model-1.safetensors'", "a link that leaves its folder")


def test_a_link_named_as_the_weights_is_followed(tmp_path: Path) -> None:
    save_file({"a": ONE}, tmp_path / "elsewhere")
    (folder(tmp_path / "made") / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    assert equal(read_checkpoint(tmp_path / "made"), {"a": ONE})


def test_what_is_no_checkpoint_folder(tmp_path: Path) -> None:
    refusal(UsageError, tmp_path / "none", "There is no folder", "none")
    (tmp_path / "file").write_text("x")
    refusal(UsageError, tmp_path / "file", "is a file, not a folder")
    refusal(UsageError, tmp_path, "has no config.json", "save_pretrained")
    refusal(UsageError, folder(tmp_path), "no weights, neither model.safetensors nor pytorch_model.bin")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("tf_model.h5", "TensorFlow"),
        ("model.ckpt-1000.index", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
        ("model.Q4_K.gguf", "GGUF"),
        ("adapter_model.safetensors", "adapter"),
        ("model.fp16.safetensors", "name of its own"),
        ("consolidated.00.pth", "name of its own"),
    ],
)
def test_weights_of_other_kinds_are_refused_by_name(tmp_path: Path, name: str, what: str) -> None:
    (folder(tmp_path) / name).write_bytes(b"x")
    refusal(UsageError, tmp_path, what, repr(name), "save the model with save_pretrained")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"[1]", "holds a list, and an object is needed"),
        (b'"gpt2"', "holds a text"),
        (b"null", "holds null"),
        (b"12", "holds a number"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
    ids=["empty", "cut", "bytes", "list", "text", "null", "number", "lists", "objects", "digits"],
)
def test_a_damaged_config(tmp_path: Path, content: bytes, part: str) -> None:
    (folder(tmp_path) / "config.json").write_bytes(content)
    refusal(BrokenInputError, tmp_path, "config.json", part)


def test_a_config_that_is_too_large_or_no_file(tmp_path: Path) -> None:
    with (folder(tmp_path) / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # holes: it takes no room
    refusal(BrokenInputError, tmp_path, "config.json has 1,099,511,627,776 bytes")
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    refusal(UsageError, tmp_path, "config.json is a folder, not a file")
    (tmp_path / "config.json").rmdir()
    os.mkfifo(tmp_path / "config.json")
    refusal(UsageError, tmp_path, "config.json is no file")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("keep", [0, 1, 8, 40, -1], ids=lambda keep: f"{keep}-bytes")
def test_cut_weights(tmp_path: Path, name: str, keep: int) -> None:
    path = folder(tmp_path) / name
    (save_file if name.endswith("s") else torch.save)({"a": torch.arange(1000.0)}, path)  # type: ignore[operator]
    path.write_bytes(path.read_bytes()[:keep])
    refusal(BrokenInputError, tmp_path, str(path))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", INDEX])
def test_a_folder_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    (folder(tmp_path) / name).mkdir()
    refusal(UsageError, tmp_path, str(tmp_path / name))


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.target}'",)


@pytest.mark.parametrize("form", ["zip", "old", "plain"])
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The variable by which PyTorch can be told to trust pickles changes nothing.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    target, path = tmp_path / "ran", folder(tmp_path / "made") / "pytorch_model.bin"
    value = {"a": ONE, "b": Bomb(target)}
    if form == "plain":
        path.write_bytes(pickle.dumps(value))
    else:
        torch.save(value, path, _use_new_zipfile_serialization=form == "zip")
    refusal(BrokenInputError, path.parent, str(path), "could run code", "safetensors")
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb(target)))
    assert target.exists(), "the bomb of this test works"


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ([ONE], "holds a list"),
        ({"a": 1}, "holds 'a', a int"),
        ({3: ONE}, "holds 3, a Tensor"),
        ({"model": {"a": ONE}}, "holds 'model', a dict"),
        ({"a": torch.zeros(1).expand(1 << 20, 1 << 20)}, "'a' is not stored number by number"),
        (
            {"a": torch.sparse_coo_tensor(torch.zeros(2, 1), [1.0], (1 << 20, 1 << 20), check_invariants=True)},
            "'a' is not stored",
        ),
        ({"a": torch.zeros(4, device="meta")}, "'a' is not stored"),
        ({}, "holds no tensors"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "'a' is of the type torch.complex64"),
    ],
    ids=["list", "number", "key", "nested", "repeated", "sparse", "meta", "nothing", "complex"],
)
def test_a_pickle_of_other_things_than_plain_tensors(tmp_path: Path, value: Any, part: str) -> None:
    save_bin(folder(tmp_path) / "pytorch_model.bin", value)
    refusal(BrokenInputError, tmp_path, "pytorch_model.bin", part)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_not_finite(tmp_path: Path, kind: torch.dtype, value: float) -> None:
    tensors = {"fine": ONE, "bad\x1b[31m": torch.tensor([1.0, value], dtype=kind)}
    save_file(tensors, folder(tmp_path) / "model.safetensors")
    refusal(BrokenInputError, tmp_path, r"model.safetensors: tensor 'bad\x1b[31m' holds a value that is not finite")


def test_a_number_beyond_float32_is_not_finite_either(tmp_path: Path) -> None:
    save_file({"a": torch.tensor([1e300], dtype=torch.float64)}, folder(tmp_path) / "model.safetensors")
    refusal(BrokenInputError, tmp_path, "tensor 'a' holds a value that is not finite")


def test_a_type_that_needs_scales_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2).to(torch.float8_e4m3fn)}, folder(tmp_path) / "model.safetensors")
    refusal(BrokenInputError, tmp_path, "tensor 'a' is of the type torch.float8_e4m3fn", "float32")


SHARD = {"model-1.safetensors": {"a": ONE}}


@pytest.mark.parametrize(
    "entry",
    [
        "../outside.safetensors",
        "/etc/passwd",
        "sub/model-1.safetensors",
        "..",
        ".",
        "",
        "sub\\model-1.safetensors",
        "C:model-1.safetensors",
        "model-1.safetensors\x00",
        "model\x1b[2J.safetensors",
        "config.json",
        "model-1.bin",
    ],
)
def test_an_index_that_names_what_is_no_shard(tmp_path: Path, entry: str) -> None:
    save_file({"a": ONE}, tmp_path / "outside.safetensors")
    indexed(tmp_path / "made", {"a": entry}, SHARD)
    (tmp_path / "made/sub").mkdir()
    save_file({"a": ONE}, tmp_path / "made/sub/model-1.safetensors")
    refusal(BrokenInputError, tmp_path / "made", INDEX, repr(entry), "which is no .safetensors file of its folder")


def test_an_index_that_names_a_link_out_of_the_folder(tmp_path: Path) -> None:
    save_file({"a": ONE}, tmp_path / "outside.safetensors")
    made = indexed(tmp_path / "made", {"a": "model-1.safetensors"}, {})
    (made / "model-1.safetensors").symlink_to(tmp_path / "outside.safetensors")
    refusal(BrokenInputError, made, INDEX, "'model-1.safetensors'", "a link that leaves its folder")
    # A link that stays is fine, and so is a folder that is itself reached by one.
    (made / "model-1.safetensors").unlink()
    save_file({"a": ONE}, made / "content")
    (made / "model-1.safetensors").symlink_to("content")
    (tmp_path / "link").symlink_to(made)
    assert equal(read_checkpoint(tmp_path / "link"), {"a": ONE})


@pytest.mark.parametrize(
    ("weight_map", "shards", "parts"),
    [
        ({"a": "model-2.safetensors"}, SHARD, (INDEX, "'model-2.safetensors'", "no such file")),
        ({"a": 7}, SHARD, (INDEX, "has 'a' in 7")),
        ({"a": ["model-1.safetensors"]}, SHARD, (INDEX, "has 'a' in")),
        ({}, SHARD, (INDEX, "no weight_map")),
        ([], SHARD, (INDEX, "no weight_map")),
        (
            {"a": "model-1.safetensors", "b": "model-1.safetensors"},
            SHARD,
            ("model-1.safetensors lacks the tensor 'b'", INDEX),
        ),
        (
            {"a": "model-1.safetensors"},
            {"model-1.safetensors": {"a": ONE, "more": TWO}},
            ("model-1.safetensors has a tensor 'more'", INDEX, "in none of its files"),
        ),
        (
            {"a": "model-1.safetensors", "b": "model-2.safetensors"},
            {"model-1.safetensors": {"a": ONE}, "model-2.safetensors": {"a": TWO, "b": TWO + 1}},
            ("model-2.safetensors has a tensor 'a'", INDEX, "in 'model-1.safetensors'"),
        ),
    ],
    ids=["missing", "number", "list", "nothing", "no-map", "lacks", "more", "twice"],
)
def test_an_index_that_contradicts_its_shards(
    tmp_path: Path, weight_map: Any, shards: dict[str, dict[str, Tensor]], parts: tuple[str, ...]
) -> None:
    refusal(BrokenInputError, indexed(tmp_path, weight_map, shards), *parts)


def test_an_index_of_very_many_entries(tmp_path: Path) -> None:
    indexed(tmp_path, {str(n): "model-1.safetensors" for n in range(200_000)}, SHARD)
    refusal(BrokenInputError, tmp_path, "model-1.safetensors", "tensor 'a'")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {str(n): f"{n}.safetensors" for n in range(200_000)}}))
    refusal(BrokenInputError, tmp_path, INDEX, "'0.safetensors'", "no such file")


def test_no_shard_is_read_before_all_are_known_to_be_there(tmp_path: Path) -> None:
    """A missing last shard is told before gigabytes are read: here the first one is damaged, and not looked at."""
    indexed(tmp_path, {"a": "model-1.safetensors", "b": "model-2.safetensors"}, {})
    (tmp_path / "model-1.safetensors").write_bytes(b"damaged")
    assert re.search(r"'model-2\.safetensors'.*no such file", refusal(BrokenInputError, tmp_path))
