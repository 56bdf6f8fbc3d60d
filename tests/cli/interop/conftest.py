"""Checkpoints to import."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.commands import tfcli
from tests.cli.interop.support import Checkpoints
from tests.support.checkpoints import save_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """A checkpoint of a family, made at the first call. Copy it to change it."""
    folder = tmp_path_factory.mktemp("checkpoints")

    def made(family: str) -> Path:
        path = folder / family
        return path if path.exists() else save_checkpoint(path, family)

    return made


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of letters, whose vocabulary has no special token."""
    import transformers
    from tokenizers import Tokenizer, decoders, models

    folder = tmp_path_factory.mktemp("endless") / "letters"
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz .O")}
    backend = Tokenizer(models.BPE(letters, []))
    backend.decoder = decoders.Fuse()
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": len(letters)}
    torch.manual_seed(0)
    config = transformers.GPT2Config(**sizes, bos_token_id=None, eos_token_id=None, initializer_range=0.5)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, and pairs of them."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"the cat sat on the mat {n}" for n in range(40)]
    (folder / "text.txt").write_text("\n".join(lines) * 4)
    (folder / "pairs.tsv").write_text("\n".join(["a\tb", *(f"{line}\t{line}" for line in lines)]) + "\n")
    return folder


@pytest.fixture
def headless(checkpoint: Checkpoints, tmp_path: Path) -> Path:
    """A run of BERT as the base class saves it: without a head, names without their prefix."""
    folder = tmp_path / "headless"
    shutil.copytree(checkpoint("bert"), folder)
    tensors = load_file(folder / "model.safetensors")
    prefix = "bert."
    save_file(
        {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)},
        folder / "model.safetensors",
    )
    result = tfcli("import", folder, "--out", tmp_path / "run")
    assert result.exit_code == 0 and "inspect attention" in result.stderr and "none" in result.stdout
    return tmp_path / "run"
