"""``tfcli inspect heads``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_every_form_names_every_head(trained: Callable[[str], Path], tmp_path: Path):
    command = ("inspect", "heads", trained("decoder"))
    text = tfcli(*command).stdout
    assert "measured on 16 documents of builtin:stories" in text
    assert [text.count(f"\nL{layer} H{head} ") for layer in (0, 1) for head in (0, 1)] == [1, 1, 1, 1]
    found = json.loads(tfcli(*command, "--json").stdout)
    assert [(head["layer"], head["head"]) for head in found["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found["repeated"] == 15
    rows = tfcli(*command, "--csv").stdout.splitlines()
    assert len(rows) == 5
    assert rows[1].startswith(f"decoder_self,0,0,{found['heads'][0]['role']},")
    svg = tmp_path / "new" / "heads.svg"
    assert tfcli(*command, "--svg", svg).exit_code == 0
    assert "Attention heads" in svg.read_text()


def test_sorted_by_a_column(trained: Callable[[str], Path]):
    run = trained("encoder")
    heads = json.loads(tfcli("inspect", "heads", run, "--json").stdout)["heads"]
    values = {f"L{head['layer']} H{head['head']}": head["entropy"] for head in heads}
    shown = [line[:5] for line in tfcli("inspect", "heads", run, "--sort", "entropy").stdout.splitlines()]
    order = [name for name in shown if name in values]
    assert order == sorted(values, key=lambda name: -values[name])


def test_a_text_and_its_target(trained: Callable[[str], Path]):
    shown = tfcli("inspect", "heads", trained("encoder-decoder"), "O gato", "--target", "The cat", "--kind", "cross")
    assert "measured on the text" in shown.stdout
    assert "cross-attention" in shown.stdout and "encoder self-attention" not in shown.stdout


def test_a_kind_that_the_run_has_not_is_refused(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "heads", trained("decoder"), "--kind", "cross")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "This decoder has no cross attention" in refused.stderr


def test_an_unknown_column_is_refused_with_those_there_are(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "heads", trained("decoder"), "--sort", "size")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--sort 'size' is not one of role, layer, previous" in refused.stderr


def test_where_no_query_has_a_next_token_there_is_no_share_and_no_warning(
    trained: Callable[[str], Path], recwarn: pytest.WarningsRecorder
):
    told = tfcli("inspect", "heads", trained("encoder-decoder"), "o", "--target", "the", "--json")
    assert told.exit_code == 0, told.stderr
    heads = [head for head in json.loads(told.stdout)["heads"] if head["kind"] == "encoder_self"]
    assert {head["next"] for head in heads} == {None}
    assert [str(one.message) for one in recwarn] == []
