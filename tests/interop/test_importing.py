"""Checkpoints of every family and form become ordinary runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.checkpoints import FAMILIES, UNUSED_ROWS, Form, edit_json, save_checkpoint
from tests.support.runs import same, weights
from tfcli.errors import UsageError
from tfcli.interop import importing
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import load_run

STARTS = {"bart": (2, 0), "marian": (27,), "t5": (0,)}
"""What targets begin with: </s> <s>, and the padding that comes last in Marian's vocabulary and first in T5's."""


@pytest.mark.parametrize("family", FAMILIES)
def test_all_forms_of_weights_make_the_same_run(family: str, tmp_path: Path):
    forms: tuple[Form, ...] = ("safetensors", "shards", "bin")
    for form in forms:
        folder = save_checkpoint(tmp_path / form, family, form)
        record = import_run(str(folder), tmp_path / f"{form}-run")
        assert (record.layout, record.left_over, record.has_head) == (family, (), True)
        assert record.vocab_size == record.tokens + UNUSED_ROWS
    assert len(list((tmp_path / "shards").glob("model-0*.safetensors"))) > 1
    assert not list((tmp_path / "bin").glob("*.safetensors"))
    one, *others = [tmp_path / f"{form}-run" for form in forms]
    first = weights(one / "model.safetensors")
    assert record.parameters == sum(tensor.numel() for tensor in first.values())
    for run in others:
        assert same(weights(run / "model.safetensors"), first)
        for file in ("config.json", "tokenizer.json"):
            ours, theirs = ((where / file).read_text() for where in (run, one))
            assert _without_id(ours) == _without_id(theirs)
    origins = [load_run(tmp_path / f"{form}-run").recipe.origin for form in forms]
    assert len({origin.weights for origin in origins}) == 1
    assert [origin.source for origin in origins] == [str(tmp_path / form) for form in forms]


def _without_id(text: str) -> dict[str, Any]:
    """The id of a run tells where it comes from."""
    return {name: value for name, value in json.loads(text).items() if name != "run_id"}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_imported_run_has_its_roles_and_says_what_it_is(family: str, tmp_path: Path):
    import_run(str(save_checkpoint(tmp_path / "mine", family)), tmp_path / "run")
    run = load_run(tmp_path / "run")
    roles = run.config.roles
    assert roles.known == run.tokenizer.vocab_size
    assert run.recipe.generate.max_new_tokens < run.config.model.max_seq_len
    if family in STARTS:
        assert roles.target_prefix == STARTS[family]
        assert roles.source([9]) == ([0, 9, 2] if family == "bart" else [9, roles.eos])
    elif family in ("bert", "eurobert"):
        assert roles == TokenRoles(pad=0, bos=2, eos=3, mask=4, unk=1, known=55)
    elif family == "gpt2":
        assert (roles.pad, roles.bos, roles.eos, roles.unk) == (0, 0, 0, None)
    else:
        assert (roles.bos, roles.eos, roles.unk) == (1, 2, 0)
    card = (tmp_path / "run/README.md").read_text()
    assert f"| family | {family} |" in card and "| imported from | mine |" in card and str(tmp_path) not in card
    assert "tfcli train --init . --data builtin:" in card


def test_left_over_heads_are_listed(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = save_checkpoint(tmp_path / "mine", "bert")
    config = transformers.BertConfig.from_pretrained(folder)
    transformers.BertForPreTraining(config).save_pretrained(folder)
    record = import_run(str(folder), tmp_path / "run")
    assert record.left_over == (
        *("bert.pooler.dense.bias", "bert.pooler.dense.weight"),
        *("cls.seq_relationship.bias", "cls.seq_relationship.weight"),
    )
    assert "cls.seq_relationship.bias" in (tmp_path / "run/README.md").read_text()


@pytest.mark.parametrize(
    ("family", "telling"),
    [("gpt2", "n_embd"), ("bert", "type_vocab_size"), ("t5", "d_kv"), ("marian", "static_position_embeddings")],
)
def test_an_old_config_without_a_model_type(family: str, telling: str, tmp_path: Path):
    folder = save_checkpoint(tmp_path / "mine", family)
    said = json.loads((folder / "config.json").read_text())
    edit_json(folder / "config.json", model_type=None, **{telling: said.get(telling, True)})
    assert import_run(str(folder), tmp_path / "run").layout == family


def test_half_precision_is_kept_and_widened_exactly_for_use(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "mine", "llama")
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    import_run(str(folder), tmp_path / "run")
    found = weights(tmp_path / "run/model.safetensors")["embedding.weight"]
    stored = tensors["model.embed_tokens.weight"]
    assert found.dtype == torch.bfloat16 and torch.equal(found, stored)
    used = load_run(tmp_path / "run").model.get_parameter("embedding.weight")
    assert used.dtype == torch.float32 and torch.equal(used, stored.float())
    narrow = load_run(tmp_path / "run", precision="bfloat16").model.get_parameter("embedding.weight")
    assert narrow.dtype == torch.bfloat16 and torch.equal(narrow, stored)


def test_a_checkpoint_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = save_checkpoint(tmp_path / "snapshot", "llama")
    asked: list[str] = []

    def fetch(name: str) -> Path:
        asked.append(name)
        return folder

    monkeypatch.setattr(importing, "fetch", fetch)
    monkeypatch.chdir(tmp_path)
    record = import_run("hf:owner/model@main")
    assert asked == ["hf:owner/model@main"]
    assert (record.path, record.source) == ("runs/model-1", "hf:owner/model@main")
    assert load_run(Path("runs/model-1")).recipe.origin.source == "hf:owner/model@main"


@pytest.mark.parametrize("source", [".", "./", "../mine", "{}/mine/"])
def test_a_run_without_a_name_of_its_own_gets_the_folders(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(save_checkpoint(tmp_path / "mine", "llama"))
    assert import_run(source.format(tmp_path)).path == "runs/mine-1"


def test_nothing_is_fetched_for_a_run_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fetch(name: str) -> Path:
        raise AssertionError(f"{name} was fetched")

    monkeypatch.setattr(importing, "fetch", fetch)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="choose another --out"):
        import_run("hf:owner/model", tmp_path / "file")


LOADED = """
import sys
import torch
from tfcli.runs.load import load_run
from tfcli.training.memory import peak_memory, process_memory
before = process_memory()
load_run(sys.argv[1], precision=sys.argv[2])
print(peak_memory(torch.device("cpu")) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_a_model_is_in_memory_once_in_the_precision_that_is_asked_for(tmp_path: Path):
    """64 million parameters, stored in 2 bytes each: read, laid out for prediction, and never held beside a copy. What
    is freed goes back to the system at once: else its library decides, from one run to the next otherwise."""
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 5, "head_dim": 64}
    folder = save_checkpoint(tmp_path / "mine", "llama", num_attention_heads=16, num_key_value_heads=16, **sizes)
    narrow = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(narrow, folder / "model.safetensors", {"format": "pt"})
    numbers = import_run(str(folder), tmp_path / "run").parameters
    assert (tmp_path / "run/model.safetensors").stat().st_size < 2 * numbers + 10_000
    for precision, size in (("float32", 4), ("bfloat16", 2)):
        command = [sys.executable, "-c", LOADED, str(tmp_path / "run"), precision]
        returning = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "100000", "MALLOC_ARENA_MAX": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=returning)
        assert size * numbers < int(done.stdout) < size * numbers + 110e6, precision


@pytest.mark.parametrize(("family", "gain"), [("llama", 0.0), ("gemma", 1.0)])
def test_an_export_keeps_the_precision_of_the_checkpoint(family: str, gain: float, tmp_path: Path):
    """Gemma keeps gains less 1, and 1 more has too many digits for sixteen bits: it is stored as it comes out."""
    folder = save_checkpoint(tmp_path / "mine", family)
    before = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(before, folder / "model.safetensors", {"format": "pt"})
    stored_in = "bfloat16 and float32" if gain else "bfloat16"
    assert import_run(str(folder), tmp_path / "run").precision == stored_in
    assert export_run(load_run(tmp_path / "run"), tmp_path / "again").precision == "bfloat16"
    after = load_file(tmp_path / "again/model.safetensors")
    assert same(after, before) and after["model.norm.weight"].dtype == torch.bfloat16
    stored = load_file(tmp_path / "run/model.safetensors")["stack.final_norm.weight"].float()
    assert torch.equal(stored, before["model.norm.weight"].float() + gain)
    assert json.loads((tmp_path / "again/config.json").read_text())["dtype"] == "bfloat16"
