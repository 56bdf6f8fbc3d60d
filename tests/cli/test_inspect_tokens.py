"""`tfcli inspect tokens`."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import tfcli


def test_a_text_on_stdin_in_all_forms(trained: Callable[[str], Path]):
    run = trained("encoder")
    told = json.loads(tfcli("inspect", "tokens", run, "-", "--json", stdin="a <mask>\n").stdout)
    assert [row["token"] for row in told["tokens"]] == ["<s>", "a", " ", "<mask>", "</s>"]
    assert told["fertility"] is not None
    rows = tfcli("inspect", "tokens", run, "a", "--csv").stdout.splitlines()
    assert rows[0].startswith("position,token_id,token") and len(rows) == 4
    assert "tokens a word" in tfcli("inspect", "tokens", run, "a cat").stdout


def test_a_text_that_does_not_fit_is_refused(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "tokens", trained("decoder"), "a" * 40)
    assert refused.exit_code == 2
    assert "The text has 41 tokens and the context holds 32; shorten the text" in refused.stderr


def test_one_token_is_told_in_the_singular(trained: Callable[[str], Path]):
    told = tfcli("inspect", "tokens", trained("decoder"), "").stdout
    assert "1 of 32 positions is read, 1 special: each head compares 1 pair\n" in told
