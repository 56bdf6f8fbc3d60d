"""Weights: whole or not at all, and checked against the model before any of them is taken."""

import json
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.runs.weights import fill_model, load_tensors, model_tensors, save_tensors


def model(seed: int = 0, **settings: object) -> Transformer:
    sizes = {"vocab_size": 7, "d_model": 8, "num_heads": 2, "num_layers": 1, "max_seq_len": 4}
    return build_model(ModelSection(**{**sizes, **settings}), seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_weights_come_back_to_the_last_bit(tmp_path: Path, tie: bool):
    path = tmp_path / "model.safetensors"
    saved, filled = model(1, tie_embeddings=tie), model(2, tie_embeddings=tie)
    save_tensors(path, model_tensors(saved), {"run_id": "x", "step": "3"})
    tensors, metadata = load_tensors(path)
    assert metadata == {"run_id": "x", "step": "3"}
    assert ("head.weight" in tensors) is not tie, "a tied matrix is stored once"
    fill_model(filled, tensors, path)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(filled(ids), saved(ids))
    assert (filled.head.weight is filled.embedding.weight) is tie, "filling must not untie"


def test_metadata_are_written_in_the_order_of_their_keys(tmp_path: Path):
    """The library writes them in random order; nine keys are in order by chance once in 362,880 times."""
    path, metadata = tmp_path / "model.safetensors", {key: f'"{key}", é' for key in "ihgfedcba"}
    save_tensors(path, {"b": torch.arange(3), "a": torch.ones(2, 2)}, metadata)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert list(header["__metadata__"]) == list("abcdefghi")
    tensors, read = load_tensors(path)
    assert read == metadata
    assert torch.equal(tensors["b"], torch.arange(3)) and torch.equal(tensors["a"], torch.ones(2, 2))


def test_views_and_gradients_are_saved_as_plain_numbers(tmp_path: Path):
    """Slices and transposes share memory and are not contiguous, which safetensors itself refuses."""
    base = torch.arange(12.0).view(3, 4).requires_grad_()
    save_tensors(tmp_path / "a", {"t": base.T, "row": base[1], "scalar": torch.tensor(2)}, {})
    tensors, _ = load_tensors(tmp_path / "a")
    assert tensors["t"].tolist() == base.T.tolist()
    assert tensors["row"].tolist() == [4, 5, 6, 7]
    assert tensors["scalar"].item() == 2
    assert not tensors["t"].requires_grad


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {key: value for key, value in tensors.items() if key != name}


def changed(name: str, value: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {**tensors, name: value(tensors[name])}


def poisoned(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.detach().clone()
    tensor.view(-1)[-1] = value
    return tensor


QUERY = "stack.layers.0.attention.query.weight"
DAMAGES: dict[str, tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str, str]] = {
    "missing": (without(QUERY), QUERY, "lacks"),
    "left over": (
        lambda tensors: {**tensors, "extra.weight": torch.zeros(1)},
        "extra.weight",
        "the model does not",
    ),
    "wrong shape": (changed(QUERY, lambda t: t[:-1]), QUERY, "the shape (7, 8), not (8, 8)"),
    "transposed": (changed("embedding.weight", lambda t: t.T), "embedding.weight", "(8, 7)"),
    "not a number": (changed(QUERY, lambda t: poisoned(t, float("nan"))), QUERY, "not finite"),
    "infinite": (
        changed("embedding.weight", lambda t: poisoned(t, -float("inf"))),
        "embedding.weight",
        "not finite",
    ),
}


@pytest.mark.parametrize(("damage", "tensor", "words"), DAMAGES.values(), ids=DAMAGES)
def test_weights_of_another_model_are_refused_naming_file_and_tensor(tmp_path: Path, damage, tensor: str, words: str):
    """And the model keeps every weight it had: the damaged tensor may come after good ones."""
    path = tmp_path / "model.safetensors"
    save_tensors(path, damage(model_tensors(model(1))), {})
    receiver = model(2)
    before = {name: value.clone() for name, value in receiver.state_dict().items()}
    with pytest.raises(BrokenInputError) as caught:
        fill_model(receiver, load_tensors(path)[0], path)
    assert all(word in str(caught.value) for word in (str(path), repr(tensor), words)), str(caught.value)
    assert all(torch.equal(before[name], value) for name, value in receiver.state_dict().items())


def test_weights_of_the_other_architecture_are_refused(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_tensors(path, model_tensors(model(architecture="encoder-decoder")), {})
    with pytest.raises(BrokenInputError, match="belongs to another run"):
        fill_model(model(), load_tensors(path)[0], path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float):
    path = tmp_path / "model.safetensors"
    save_tensors(path, model_tensors(model()), {})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BrokenInputError) as caught:
        load_tensors(path)
    assert f"{path} is truncated or no safetensors file" in str(caught.value)


class Trap:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a weights file was unpickled",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps(Trap()), b"text, not weights\n" * 20, b"\xff" * 64],
    ids=["pickle", "text", "huge header"],
)
def test_a_file_of_another_kind_is_refused_and_never_unpickled(tmp_path: Path, content: bytes):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(BrokenInputError, match="is truncated or no safetensors file"):
        load_tensors(path)


def test_weights_that_are_not_there_are_a_usage_error(tmp_path: Path):
    with pytest.raises(UsageError, match="There are no weights at"):
        load_tensors(tmp_path / "model.safetensors")


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may grow beyond 1,000 bytes: the kernel itself refuses the write, as it does on a full disk.

    Around the one call alone: pytest's own output may be a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_weights(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.ones(3)}, {})
    with pytest.raises(TfcliError, match="Cannot write"), small_disk():
        save_tensors(path, {"a": torch.zeros(5000)}, {})
    assert load_tensors(path)[0]["a"].tolist() == [1, 1, 1]
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path):
    with pytest.raises(TfcliError, match="Cannot write"):
        save_tensors(tmp_path / "gone" / "model.safetensors", {"a": torch.ones(3)}, {})
