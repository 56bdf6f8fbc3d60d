"""`tfcli inspect neighbours`."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import tfcli


def test_json_and_the_table_tell_the_same(trained: Callable[[str], Path]):
    run = trained("encoder-decoder")
    found = json.loads(tfcli("inspect", "neighbours", run, "the", "o", "--top-k", "2", "--json").stdout)
    assert [token["token"] for token in found["tokens"]] == ["the", "o"]
    best = found["tokens"][0]["neighbours"][0]
    shown = tfcli("inspect", "neighbours", run, "the", "--top-k", "2")
    assert shown.exit_code == 0, shown.stderr
    assert f" 1  {best['token']}" in shown.stdout and f"{best['cosine']:.2f}" in shown.stdout


def test_a_text_of_several_tokens_is_refused_with_its_tokens(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "neighbours", trained("decoder"), "bank")
    assert refused.exit_code == 2
    assert refused.stderr.strip() == (
        "tfcli: 'bank' is 4 tokens and has no vector of its own: 'b' 'a' 'n' 'k'; name one of them."
    )
