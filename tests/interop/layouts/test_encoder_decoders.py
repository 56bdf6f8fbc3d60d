"""What is special to BART, Marian and T5: two sides, and the tokens that a target begins with."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.checkpoints import save_checkpoint
from tfcli.errors import UsageError
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.layers.positions import sinusoidal_encoding
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import load_run

from . import reference
from .families import bart, marian, t5
from .family import Family, transformers

BART_START = TokenRoles(pad=1, bos=0, eos=2, source_start=(0,), target_start=(2, 0))
"""As BART's own targets do: </s> <s>."""


@pytest.mark.parametrize(
    ("family", "roles", "start"),
    [
        (bart.FAMILY, BART_START, {"decoder_start_token_id": 2, "forced_bos_token_id": 0}),
        (bart.FAMILY, reference.ROLES, {"decoder_start_token_id": 1}),
        (marian.FAMILY, TokenRoles(pad=10, bos=0, eos=0, target_start=(10,)), {"decoder_start_token_id": 10}),
        (t5.FAMILY, TokenRoles(pad=0, bos=3, eos=1, target_start=(0,)), {"decoder_start_token_id": 0}),
    ],
)
def test_what_a_target_begins_with_is_written(family: Family, roles: TokenRoles, start: dict[str, int]) -> None:
    """It ends where the model says so: no end is forced."""
    written = family.layout.write(family.run, roles)
    names = ("decoder_start_token_id", "forced_bos_token_id")
    assert {name: written[name] for name in names if name in written} == start
    assert [written[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == [roles.pad, roles.bos, roles.eos]
    assert written.get("forced_eos_token_id") is None


@pytest.mark.parametrize("family", [bart.FAMILY, marian.FAMILY], ids=["bart", "marian"])
def test_sides_of_different_sizes_are_refused_with_both_names(family: Family) -> None:
    with pytest.raises(UsageError, match="decoder_ffn_dim = 20, and encoder_ffn_dim is 10"):
        reference.read_config(family.layout, family.file(decoder_ffn_dim=20))


def test_the_table_of_positions_is_theirs() -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    table = MarianSinusoidalPositionalEmbedding(512, 64).create_weight()
    torch.testing.assert_close(sinusoidal_encoding(512, 64, layout="halves"), table, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rounded", [False, True])
def test_marian_with_another_table_of_positions(rounded: bool, tmp_path: Path) -> None:
    """It is the file's that counts, there and back; the formula in sixteen bits stays the formula."""
    folder = save_checkpoint(tmp_path / "mine", "marian")
    tensors = load_file(folder / "model.safetensors")
    model = transformers.MarianMTModel.from_pretrained(folder)
    for side in ("encoder", "decoder"):
        table = getattr(model.model, side).embed_positions.weight.detach()
        tensors[f"model.{side}.embed_positions.weight"] = table.bfloat16() if rounded else table.flip(0).contiguous()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.config.model.positions == ("sinusoidal" if rounded else "learned")
    if rounded:
        return
    export_run(run, tmp_path / "hf")
    ids = torch.arange(5, 20)[None]
    for path in (folder, tmp_path / "hf"):
        theirs = transformers.MarianMTModel.from_pretrained(path).eval()
        logits = theirs(input_ids=ids, decoder_input_ids=ids).logits
        torch.testing.assert_close(run.model(ids, ids), logits, rtol=1e-5, atol=1e-5)
