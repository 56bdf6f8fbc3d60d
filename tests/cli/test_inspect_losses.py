"""`inspect losses`, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_the_forms_say_the_same(trained: Callable[[str], Path], tmp_path: Path):
    html = tmp_path / "losses.html"
    command = ("inspect", "losses", trained("decoder"), "Tom swam.")
    shown = json.loads(tfcli(*command, "--html", html, "--json").stdout)
    assert shown.keys() == {
        *("kind", "tokens", "scored", "loss", "perplexity", "bits_per_byte", "windows", "context")
    } | {"threads"}
    rows = list(csv.DictReader(tfcli(*command, "--csv").stdout.splitlines()))
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert len(losses) == shown["scored"] == 10
    assert sum(losses) / 10 == pytest.approx(shown["loss"])
    text = tfcli(*command).stdout
    assert f"{shown['loss']:.3f}" in text and f"{shown['bits_per_byte']:.3f}" in text
    assert "Losses" in html.read_text()


def test_a_long_text_is_read_in_windows(trained: Callable[[str], Path]):
    """100 letters and the end, 32 a window."""
    shown = json.loads(tfcli("inspect", "losses", trained("decoder"), "-", "--json", stdin="a" * 100).stdout)
    assert (shown["windows"], shown["scored"], shown["context"]) == (4, 101, 32)


def test_a_pair_must_fit(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "losses", trained("encoder-decoder"), "o gato", "--target", "the " * 40)
    assert refused.exit_code == 2
    assert "The target has 41 tokens and the context holds 32" in refused.stderr
