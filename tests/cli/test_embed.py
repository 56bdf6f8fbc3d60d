"""`tfcli embed`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.cli.commands import tfcli


def test_lines_of_stdin_become_lines_of_json(trained: Callable[[str], Path]):
    result = tfcli("embed", trained("encoder"), "--json", stdin="Tom\n\nthe cat\n")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["text"] for line in lines] == ["Tom", "the cat"]
    assert all(line.keys() == {"text", "vector", "threads"} and len(line["vector"]) == 16 for line in lines)


def test_an_archive_holds_what_json_says(trained: Callable[[str], Path], tmp_path: Path):
    arguments = ("embed", trained("encoder-decoder"), "the cat", "o gato", "--pool", "first", "--layer", "0")
    result = tfcli(*arguments, "--npz", tmp_path / "v.npz", "--json")
    archive = np.load(tmp_path / "v.npz")
    assert archive["texts"].tolist() == ["the cat", "o gato"]
    vectors = [json.loads(line)["vector"] for line in result.stdout.splitlines()]
    np.testing.assert_allclose(archive["vectors"], vectors, rtol=1e-6)
    by_csv = tfcli(*arguments, "--csv").stdout.splitlines()
    assert [float(value) for value in by_csv[1].split(",")[1:]] == vectors[0]


def test_several_texts_are_compared(trained: Callable[[str], Path]):
    shown = tfcli("embed", trained("decoder"), "Tom", "Tom", "cat").stdout
    assert "Closest: 1 and 2, cosine 1.000." in shown


def test_a_line_that_does_not_fit_is_named_behind_those_before_it(trained: Callable[[str], Path]):
    result = tfcli("embed", trained("encoder"), "-", "--json", stdin="Tom\n" + "x" * 50 + "\n")
    assert len(result.stdout.splitlines()) == 1
    assert result.exit_code == 1
    assert "Line 2 on stdin: the text has 52 tokens and the context holds 32" in result.stderr
