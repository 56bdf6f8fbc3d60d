"""Folders that ``tfcli export`` has made: `transformers` generates the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.interop.support import AUTO, TEXT, Checkpoints, done, ours, their_best, their_ids
from tests.support.runs import preset_recipe, train_tiny
from tfcli.generation.sampling import never_generated
from tfcli.runs.load import load_run


@pytest.mark.parametrize("preset", ["gpt2", "llama", "bart", "marian", "t5", "bert", None])
def test_an_exported_run_generates_the_same_under_transformers(
    preset: str | None, trained: Callable[[str], Path], tmp_path: Path
):
    """Tokenizer, framing and the settings of generation come from the folder alone."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    run, folder = tmp_path / "run", tmp_path / "hf"
    if preset is None:
        run = trained("decoder")
    else:
        train_tiny(preset_recipe(preset), run)
    record = json.loads(done("export", run, "--out", folder, "--json"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "Tom swam <mask> the river" if preset == "bert" else "Tom swam"
    ids = tokenizer(text)["input_ids"]
    if preset == "bert":
        wanted = their_best(folder, ids, ids.index(tokenizer.mask_token_id), tokenizer.all_special_ids)
        answer = json.loads(done("generate", run, text, "--json"))
        assert [one["probability"] for one in answer["predictions"][0]] == pytest.approx(wanted, abs=1e-5)
        return
    assert record["auto_class"] == AUTO[load_run(run).architecture]
    found = ours(run, text, 10)
    roles = load_run(run).config.roles
    start = list(roles.target_prefix) if preset in ("bart", "marian", "t5") else []
    assert their_ids(folder, ids, 10) == start + found


def test_a_forced_first_token_survives_export(checkpoint: Checkpoints, tmp_path: Path):
    """BART's targets begin with </s> <s>; <s> is ruled out nowhere, as in the checkpoint."""
    done("import", checkpoint("bart"), "--out", tmp_path / "run")
    done("export", tmp_path / "run", "--out", tmp_path / "hf")
    generation = json.loads((tmp_path / "hf/generation_config.json").read_text())
    assert generation["forced_bos_token_id"] == 0
    assert not {"bad_words_ids", "suppress_tokens"} & generation.keys()
    loaded = load_run(tmp_path / "run")
    assert loaded.config.model.vocab_size is not None
    hidden = [token for token in never_generated(loaded.config.roles, loaded.config.model.vocab_size) if token]
    ids, ruled_out = [0, *loaded.tokenizer.encode(TEXT), 2], {"suppress_tokens": hidden, "bad_words_ids": [[0]]}
    assert their_ids(tmp_path / "hf", ids, 11, **ruled_out) == [2, 0, *ours(tmp_path / "run", TEXT, 10)]
