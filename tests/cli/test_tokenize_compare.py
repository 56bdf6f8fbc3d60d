"""`tfcli tokenize compare` as it is typed."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.tokenization.conftest import train

TEXT = "the cat sat on the mat\n" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for algorithm in ("bpe", "char"):
        train(algorithm, TEXT, vocab_size=300).save(tmp_path / f"{algorithm}.json")
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path


def test_json_keys_are_stable(folder: Path):
    files = [folder / "bpe.json", folder / "char.json"]
    result = tfcli("tokenize", "compare", *files, "--on", folder / "text.txt", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    compared = json.loads(result.stdout)
    assert set(compared) == {
        *("source", "documents", "characters", "bytes", "words", "timed_bytes", "rounds", "tokenizers"),
    }
    assert (compared["documents"], compared["words"], compared["bytes"]) == (1, 120, 460)
    bpe, char = compared["tokenizers"]
    assert set(bpe) == {
        *("name", "algorithm", "vocab_size", "fingerprint", "tokens", "unknown", "bytes_per_token"),
        *("characters_per_token", "fertility", "whole_words", "single_characters", "unknown_rate", "vocabulary_use"),
        *("renyi_efficiency", "round_trip", "megabytes_per_second"),
    }
    assert set(bpe["megabytes_per_second"]) == {"p10", "p50", "p90"}
    assert char["name"].endswith("char.json")
    assert (char["tokens"], char["bytes_per_token"], char["vocabulary_use"]) == (460, 1.0, 1.0)


def test_the_table_from_standard_input(folder: Path):
    result = tfcli("tokenize", "compare", folder / "bpe.json", folder / "char.json", "--on", "-", stdin=TEXT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "120 words, 460 characters, 460 bytes" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bpe.json"], "Missing option '--on'"),
        (["--on", "text.txt"], "Missing argument"),
        (["bpe.json", "--on", "nosuch.txt"], "nosuch.txt"),
        (["nosuch.json", "--on", "text.txt"], "nosuch.json"),
        (["bpe.json", "--on", "blank.txt"], "There is no text in blank.txt"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
):
    monkeypatch.chdir(folder)
    (folder / "blank.txt").write_text(" \n")
    result = tfcli("tokenize", "compare", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
