"""``tfcli inspect attention --find``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_an_alignment_as_json(trained: Callable[[str], Path]):
    result = tfcli("inspect", "attention", trained("encoder-decoder"), "--find", "alignment", "--json")
    found = json.loads(result.stdout)
    assert found["head"]["kind"] == "cross"
    assert (found["training_pairs"], found["held_out_pairs"], len(found["examples"])) == (200, 300, 3)
    assert 0 < found["held_out"]["hits"] < found["held_out"]["count"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["Tom", "--find", "bank"], "--find chooses its texts and the head itself; leave TEXT or --find out"),
        (["--head", "0", "--find", "bank"], "leave --head or --find out"),
        (["--rollout", "--find", "bank"], "leave --rollout or --find out"),
        (["--find", "alignment"], "this decoder has one; name a run of the recipe pt-en"),
        ([], "There is no TEXT to read"),
    ],
    ids=["text", "head", "rollout", "architecture", "nothing"],
)
def test_what_does_not_go_together_is_refused(trained: Callable[[str], Path], arguments: list[str], problem: str):
    refused = tfcli("inspect", "attention", trained("decoder"), *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr
