"""What ``tfcli import`` and ``tfcli export`` refuse, in one sentence, with nothing left behind."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cli.commands import snapshot
from tests.cli.interop.support import Checkpoints, changed, done, refused
from tfcli.interop import importing


def refused_import(exit_code: int, folder: Path, *parts: str) -> str:
    """Refuse a checkpoint, name what the parts say, and leave nothing behind."""
    before = sorted(folder.parent.rglob("*"))
    sentence = refused(exit_code, "import", folder, "--out", folder.parent / "runs" / "run")
    assert sorted(folder.parent.rglob("*")) == before
    for part in parts:
        assert part in sentence, sentence
    return sentence


UP = "model.layers.1.mlp.up_proj.weight"


NORM = "model.norm.weight"


BAD_TENSORS: dict[str, tuple[Mapping[str, Tensor | None], str]] = {
    "missing": ({UP: None}, f"lacks the tensor '{UP}'"),
    "extra": ({"model.layers.0.mlp.more": torch.ones(2)}, "has a tensor 'model.layers.0.mlp.more' that a llama model"),
    "a layer more": ({"model.layers.2.mlp.up_proj.weight": torch.ones(24, 16)}, "'model.layers.2.mlp.up_proj.weight'"),
    "wrongly shaped": ({NORM: torch.ones(17)}, f"tensor '{NORM}' has the shape (17,), not (16,)"),
    "transposed": ({UP: torch.ones(16, 24)}, f"tensor '{UP}' has the shape (16, 24), not (24, 16)"),
    "scalar": ({NORM: torch.tensor(1.0)}, f"tensor '{NORM}' has the shape (), not (16,)"),
    "empty": ({NORM: torch.ones(0)}, f"tensor '{NORM}' has the shape (0,), not (16,)"),
    "whole numbers": ({NORM: torch.ones(16, dtype=torch.int64)}, f"tensor '{NORM}' is of the type torch.int64"),
    "NaN": ({NORM: torch.full((16,), float("nan"))}, f"tensor '{NORM}' holds a value that is not finite"),
    "infinite": ({UP: torch.full((24, 16), float("-inf"))}, f"tensor '{UP}' holds a value that is not finite"),
    "control characters": ({"model.\x1b[2J\n\u202eb": torch.ones(1)}, r"has a tensor 'model.\x1b[2J\n\u202eb'"),
    "a very long name": ({"model." + "x" * 9999: torch.ones(1)}, f"has a tensor 'model.{'x' * 73}…"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors_that_do_not_make_the_model(name: str, checkpoint: Checkpoints, tmp_path: Path):
    tensors, part = BAD_TENSORS[name]
    folder = changed(checkpoint("llama"), tmp_path / "mine", tensors=tensors)
    refused_import(1, folder, str(folder / "model.safetensors"), part)


def test_two_tensors_of_one_name(checkpoint: Checkpoints, tmp_path: Path):
    """Old files say gamma where today's say weight; neither may silently win."""
    name = "bert.encoder.layer.0.output.LayerNorm.gamma"
    refused_import(1, changed(checkpoint("bert"), tmp_path / "mine", tensors={name: torch.ones(16)}), f"'{name}'")


HUGE = 10**6


BAD_CONFIGS: dict[str, tuple[str, Mapping[str, Any], int, str]] = {
    "fewer layers than tensors": ("llama", {"num_hidden_layers": 1}, 1, "'model.layers.1.input_layernorm.weight'"),
    "another width": ("llama", {"intermediate_size": 25}, 1, "has the shape (24, 16), not (25, 16)"),
    "another head size": ("llama", {"head_dim": 2}, 1, "'model.layers.0.self_attn.q_proj.weight' has the shape"),
    "tied, with two matrices": ("llama", {"tie_word_embeddings": True}, 1, "'lm_head.weight' is not 'model.embed"),
    "not tied, with one matrix": ("bert", {"tie_word_embeddings": False}, 1, "lacks the tensor 'cls.predictions.dec"),
    "a million layers": ("llama", {"num_hidden_layers": HUGE}, 2, "model.num_layers = 1000000 is out of range"),
    "too many layers": ("llama", {"num_hidden_layers": 4000}, 1, "holds 21 tensors, too few for the 4000 layers"),
    "too many decoder layers": ("t5", {"num_decoder_layers": 4000}, 1, "too few for the 4000 layers"),
    "a vocabulary without end": ("llama", {"vocab_size": 10**30}, 2, "has vocab_size = 1000000000"),
    "a large vocabulary": ("llama", {"vocab_size": HUGE}, 1, "has the shape (269, 16), not (1000000, 16)"),
    "positions without end": ("marian", {"max_position_embeddings": 10**12}, 2, "max_position_embeddings = 1000000"),
    "unknown family": ("llama", {"model_type": "mpt"}, 2, "is of model_type 'mpt', which tfcli does not read"),
    "a list of families": ("llama", {"model_type": ["llama"]}, 2, "is of model_type ['llama']"),
    "no family": ("llama", {"model_type": None}, 2, "says no model_type; choose one of gpt2"),
    "unknown setting": ("llama", {"a\x1bb": 1}, 2, r"has a\x1bb = 1, and tfcli does not know this setting"),
    "a long value": ("llama", {"new": list(range(99999))}, 2, "has new = [0, 1, 2"),
    "scaling of another kind": (
        "llama",
        {"rope_parameters": {"rope_type": "longrope"}},
        2,
        "has rope_type = 'longrope'",
    ),
    "nested nonsense": ("llama", {"rope_parameters": {"a": [{"b": None}]}}, 2, "has a = [{'b': None}]"),
    "quantized": ("llama", {"quantization_config": {"bits": 4}}, 2, "has quantization_config = {'bits': 4}"),
    "gpt2 that scales by layer": (
        "gpt2",
        {"scale_attn_by_inverse_layer_idx": True},
        2,
        "scale_attn_by_inverse_layer_idx",
    ),
    "relative BERT": (
        "bert",
        {"position_embedding_type": "relative_key"},
        2,
        "position_embedding_type = 'relative_key'",
    ),
    "dropout of all": ("gpt2", {"resid_pdrop": 1.0}, 2, "model.dropout = 1.0 is out of range"),
    "eps 0": ("llama", {"rms_norm_eps": 0}, 2, "model.norm_eps = 0.0 is out of range"),
    "eps beyond all numbers": ("llama", {"rms_norm_eps": 10**400}, 2, "a number of 0 or more is needed"),
    "one position": ("llama", {"max_position_embeddings": 1}, 2, "model.max_seq_len = 1 is out of range"),
    "odd heads": ("llama", {"head_dim": 3}, 2, "the head size 3 is odd"),
    "groups that do not divide": ("llama", {"num_key_value_heads": 3}, 2, "not divisible by model.num_kv_heads = 3"),
    "a size in words": ("llama", {"hidden_size": "16"}, 2, "has hidden_size = '16', and a whole number"),
    "no size": ("llama", {"hidden_size": None}, 2, "does not say 'hidden_size'"),
    "a token in words": ("llama", {"eos_token_id": "x"}, 1, "has eos_token_id = 'x', and the id of a token is needed"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_config_that_makes_no_such_model(name: str, checkpoint: Checkpoints, tmp_path: Path):
    family, values, exit_code, part = BAD_CONFIGS[name]
    folder = changed(checkpoint(family), tmp_path / "mine", config=values)
    file = "model.safetensors" if exit_code == 1 and "token_id" not in part else "config.json"
    sentence = refused_import(exit_code, folder, str(folder / file), part)
    assert len(sentence) < 800


def test_a_config_with_a_setting_said_twice_means_the_last(checkpoint: Checkpoints, tmp_path: Path):
    """As everyone reads JSON."""
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    text = (folder / "config.json").read_text().rstrip("}")
    (folder / "config.json").write_text(text + ', "hidden_size": 17, "hidden_size": 16}')
    done("import", folder, "--out", tmp_path / "run")
    (folder / "config.json").write_text(text + ', "hidden_size": 20}')
    refused_import(1, folder, "has the shape (269, 16), not (269, 20)")


class Code:
    """Unpickled, it would make a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("made-by-the-pickle",)


def test_a_pickle_with_code(checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    (folder / "model.safetensors").unlink()
    torch.save({"a": Code()}, folder / "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    refused_import(
        1, folder, "pytorch_model.bin is damaged, or a pickle that holds more than tensors and could run code"
    )


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("../model-1.safetensors", "names '../model-1.safetensors', which is no .safetensors file of its folder"),
        ("link.safetensors", "names 'link.safetensors', a link that leaves its folder"),
        ("loop.safetensors", "names 'loop.safetensors', and there is no such file beside it"),
        ("m" * 5000 + ".safetensors", "names 'mmm"),
        (5, "in 5, and the name of a file is needed"),
    ],
)
def test_an_index_that_leads_elsewhere(entry: Any, part: str, checkpoint: Checkpoints, tmp_path: Path):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    (folder / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (folder / "link.safetensors").symlink_to(tmp_path / "model-1.safetensors")
    (folder / "loop.safetensors").symlink_to("loop.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": entry}}))
    assert len(refused_import(1, folder, str(index), part)) < 600


def test_tokenizers_that_do_not_fit(checkpoint: Checkpoints, tmp_path: Path):
    rows = {name: torch.ones(100, 16) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    folder = changed(checkpoint("llama"), tmp_path / "a/mine", {"vocab_size": 100}, rows)
    refused_import(2, folder, "has a tokenizer of 266 ids, and the embedding of", "has 100 rows", "--tokenizer FILE")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    refused_import(2, folder, f"{folder} holds no tokenizer", "--tokenizer FILE")
    (folder / "tokenizer.model").write_bytes(b"\n\x0e")
    refused_import(1, folder, f"{folder / 'tokenizer.model'} is no SentencePiece model")
    state = json.loads((checkpoint("bert") / "tokenizer.json").read_text())
    replacement = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
    state["normalizer"] = {"type": "Sequence", "normalizers": [replacement] * 40}
    (folder / "tokenizer.json").write_text(json.dumps(state))
    refused_import(1, folder, f"{folder / 'tokenizer.json'} is no tokenizer that can be read", "characters of 2,0")
    (folder / "tokenizer.json").write_text("{")
    refused_import(1, folder, f"{folder / 'tokenizer.json'} is not valid JSON")
    (folder / "tokenizer.json").unlink()
    missing = refused(2, "import", folder, "--out", tmp_path / "run", "--tokenizer", tmp_path / "none.json")
    assert "none.json" in missing


def test_sources_that_are_no_checkpoint(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    refused_import(2, tmp_path / "nowhere", "There is no folder")
    refused_import(2, tmp_path / "empty", "is no checkpoint, it has no config.json")
    refused_import(2, tmp_path / "file", "is a file, not a folder")
    refused_import(2, tmp_path / "a\x1b[2J\nb", "There is no folder", r"a\x1b[2J⏎b")
    (tmp_path / "loop").symlink_to("loop")
    refused_import(2, tmp_path / "loop", "There is no folder")
    os.mkfifo(tmp_path / "empty/config.json")
    refused_import(2, tmp_path / "empty", "config.json is no file that can be read")
    for name in ("hf:", "hf:one", "hf:a/b/c", "hf:a/b@", "hf:../b", "hf:a/b@../c"):
        assert "is no model name" in refused(2, "import", name, "--out", tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"{", (1 << 62).to_bytes(8, "little") + b"{}", "folder", "pipe"])
def test_weights_that_are_no_tensors(content: Any, checkpoint: Checkpoints, tmp_path: Path):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    file = folder / "model.safetensors"
    file.unlink()
    if content == "folder":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    refused_import(1 if isinstance(content, bytes) else 2, folder, str(file))


@pytest.mark.parametrize("command", ["import", "export"])
def test_an_output_that_is_taken_or_cannot_be(
    command: str, checkpoint: Checkpoints, trained: Callable[[str], Path], tmp_path: Path
):
    source = checkpoint("llama") if command == "import" else trained("decoder")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").touch()
    shutil.copytree(trained("decoder"), tmp_path / "run")
    before = snapshot(tmp_path)
    for taken in ("file", "folder", "run"):
        assert "choose another --out" in refused(2, command, source, "--out", tmp_path / taken)
    assert "is a file, not a folder" in refused(2, command, source, "--out", tmp_path / "file/inside")
    if os.geteuid():  # the administrator may write anywhere
        (tmp_path / "folder").chmod(0o500)
        assert "is not writable" in refused(2, command, source, "--out", tmp_path / "folder/inside")
        (tmp_path / "folder").chmod(0o700)
    assert snapshot(tmp_path) == before


def test_a_full_disk_leaves_nothing(checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importing, "save_tensors", full)
    assert "No space left on device; free the disk" in refused(
        1, "import", checkpoint("llama"), "--out", tmp_path / "run"
    )
    assert list(tmp_path.iterdir()) == []


def test_export_names_the_field_in_the_way(trained: Callable[[str], Path], tmp_path: Path):
    sentence = refused(2, "export", trained("encoder-decoder"), "--out", tmp_path / "hf")
    assert "model.norm = 'rmsnorm' is not in bart, marian" in sentence
    assert "model.positions = 'sinusoidal' is not in t5" in sentence
    assert list(tmp_path.iterdir()) == []
    assert "no run" in refused(2, "export", tmp_path / "nothing", "--out", tmp_path / "hf")
