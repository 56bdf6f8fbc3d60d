"""`inspect lens`, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import tfcli


def test_the_forms_say_the_same(trained: Callable[[str], Path]):
    command = ("inspect", "lens", trained("encoder-decoder"), "o gato", "--target", "the")
    shown = json.loads(tfcli(*command, "--top-k", "4", "--json").stdout)
    assert shown.keys() == {
        "threads",
        *("kind", "tokens", "answers", "top", "probabilities", "final", "settled", "position", "candidates"),
    }
    depths, positions = len(shown["top"]), len(shown["tokens"])
    assert (depths, positions) == (3, 2)
    assert all(len(one) == 4 for one in shown["candidates"])
    rows = list(csv.DictReader(tfcli(*command, "--csv").stdout.splitlines()))
    assert [row["top"] for row in rows] == [token for row in shown["top"] for token in row]
    text = tfcli(*command).stdout
    assert "layer 1" in text and "layer 2" not in text
    assert "Position 1, after the, layer by layer" in text


def test_files_show_the_picture(trained: Callable[[str], Path], tmp_path: Path):
    svg = tmp_path / "lens.svg"
    assert tfcli("inspect", "lens", trained("decoder"), "-", "--svg", svg, stdin="Tom\n").exit_code == 0
    assert "Logit lens" in svg.read_text()
