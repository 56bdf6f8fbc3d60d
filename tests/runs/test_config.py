"""config.json: what is written is read back, and what is damaged is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tfcli.errors import BrokenInputError, UsageError
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles
from tfcli.runs.config import FORMAT_VERSION, RunConfig, read_config, write_config

CONFIGS = [
    RunConfig(ModelSection(vocab_size=100), TokenRoles(0, 1, 2), "abc", "id"),
    RunConfig(
        ModelSection(
            architecture="encoder-decoder",
            vocab_size=7,
            max_seq_len=33,
            d_model=12,
            num_layers=2,
            num_decoder_layers=1,
            num_heads=3,
            num_kv_heads=1,
            head_dim=8,
            d_ff=20,
            positions="sinusoidal",
            position_layout="halves",
            position_base=99.5,
            norm="layernorm",
            norm_placement="post",
            norm_eps=1e-6,
            activation="gelu",
        ),
        TokenRoles(pad=3, bos=2, eos=1, mask=0, unk=4, known=6, source_start=(2,), target_start=(1, 2)),
        "f" * 16,
        "another",
    ),
    RunConfig(ModelSection(vocab_size=2, scale_embeddings=False, tie_embeddings=False), TokenRoles(0, 0, 0), "", ""),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_config_comes_back_as_it_was(tmp_path: Path, config: RunConfig):
    write_config(tmp_path / "config.json", config)
    assert read_config(tmp_path / "config.json") == config


def damaged(path: Path, change: Any) -> Path:
    write_config(path, CONFIGS[0])
    values = json.loads(path.read_text())
    path.write_text(json.dumps(change(values)))
    return path


@pytest.mark.parametrize("version", [0, 1, "2", None], ids=repr)
def test_another_format_version_is_refused(tmp_path: Path, version: object):
    path = damaged(tmp_path / "config.json", lambda values: {**values, "format_version": version})
    with pytest.raises(BrokenInputError) as caught:
        read_config(path)
    assert f"{path} has format version {version!r}, and this tfcli reads {FORMAT_VERSION}" in str(caught.value)


DAMAGES = {
    "no object": lambda values: [1, 2],
    "no version": lambda values: {k: v for k, v in values.items() if k != "format_version"},
    "no model": lambda values: {k: v for k, v in values.items() if k != "model"},
    "a model that is no object": lambda values: {**values, "model": [1]},
    "no roles": lambda values: {k: v for k, v in values.items() if k != "roles"},
    "a role missing": lambda values: {**values, "roles": {"pad": 0, "bos": 1}},
    "an unknown role": lambda values: {**values, "roles": {**values["roles"], "cls": 5}},
    "no fingerprint": lambda values: {k: v for k, v in values.items() if k != "tokenizer_fingerprint"},
    "an unknown setting": lambda values: {**values, "model": {**values["model"], "depth": 3}},
    "a setting out of range": lambda values: {**values, "model": {**values["model"], "d_model": -1}},
    "a setting of the wrong kind": lambda values: {**values, "model": {**values["model"], "norm": 3}},
    "settings that contradict each other": lambda values: {
        **values,
        "model": {**values["model"], "num_heads": 3},
    },
    "a role that is no id": lambda values: {**values, "roles": {**values["roles"], "pad": "zero"}},
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_config_is_broken_input_that_names_the_file(tmp_path: Path, change: Any):
    path = damaged(tmp_path / "config.json", change)
    with pytest.raises(BrokenInputError) as caught:
        read_config(path)
    assert str(path) in str(caught.value)


def test_a_config_that_is_cut_or_missing_is_refused(tmp_path: Path):
    path = tmp_path / "config.json"
    with pytest.raises(UsageError, match="There is no file"):
        read_config(path)
    write_config(path, CONFIGS[0])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BrokenInputError, match="is not valid JSON"):
        read_config(path)
