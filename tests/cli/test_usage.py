"""A command line that cannot be read: one sentence with the value and the remedy, and exit code 2."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train --size huge", "--size 'huge' is not one of 'tiny', 'mini', 'small', 'base'; see `tfcli train --help`"),
        ("train --size=huge", "--size 'huge' is not one of 'tiny', 'mini', 'small', 'base'; see `tfcli train --help`"),
        ("generate run --beam two", "--beam 'two' should be a valid integer; see `tfcli generate --help`"),
        ("generate run --beam 0", "--beam '0' should be greater than or equal to 1; see `tfcli generate --help`"),
        ("generate", "Missing argument 'RUN'; see `tfcli generate --help`"),
        ("tokenize train a.txt", "Missing option '--out'; see `tfcli tokenize train --help`"),
        ("train --size", "Option '--size' requires an argument; see `tfcli train --help`"),
        ("train --quiet=3", "Option '--quiet' does not take a value; see `tfcli train --help`"),
        ("run a b", "Got unexpected extra argument(s) (b); see `tfcli run --help`"),
        ("train --siz tiny", "No such option: --siz; did you mean --size"),
        ("train -x", "No such option: -x; see `tfcli train --help`"),
        ("trian", "No such command 'trian'; did you mean 'train'"),
        ("tokenize encod", "No such command 'encod'; did you mean 'encode', 'decode'"),
        ("nosuch", "No such command 'nosuch'; see `tfcli --help`"),
    ],
)
def test_what_is_wrong_and_where_to_look(command: str, sentence: str):
    result = tfcli(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tfcli: {sentence}.\n"


def test_control_characters_in_it_are_escaped():
    result = tfcli("train", "--size", "\x1b[31m")
    assert "\x1b" not in result.stderr
    assert r"'\x1b[31m'" in result.stderr


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train --data ''", "--data ''"),
        ("train --out ''", "--out ''"),
        ("train --out=", "--out ''"),
        ("train --recipe ''", "--recipe ''"),
        ("train --init ''", "--init ''"),
        ("train --resume ''", "--resume ''"),
        ("train --preset ''", "--preset ''"),
        ("train --set ''", "--set ''"),
        ("run ''", "RECIPE"),
        ("prepare '' --tokenizer t.json --out d", "SOURCE"),
        ("prepare a.txt '' --tokenizer t.json --out d", "SOURCE"),
        ("prepare a.txt --tokenizer '' --out d", "--tokenizer ''"),
        ("prepare a.txt --tokenizer t.json --out d --validation ''", "--validation ''"),
        ("tokenize train '' --out t.json", "SOURCE"),
        ("train --data ' '", "--data ' '"),
        ("tokenize encode '' text", "TOKENIZER|RUN"),
        ("tokenize compare t.json --on ''", "--on ''"),
        ("generate ''", "RUN"),
        ("generate run --prompts ''", "--prompts ''"),
        ("generate run --checkpoint ''", "--checkpoint ''"),
        ("evaluate ''", "RUN"),
        ("evaluate run ''", "SOURCE"),
        ("evaluate run --outputs ''", "--outputs ''"),
        ("inspect attention run text --svg ''", "--svg ''"),
        ("import ''", "FOLDER|hf:NAME"),
        ("export run --out ''", "--out ''"),
        ("runs list ''", "FOLDER"),
    ],
)
def test_an_empty_path_or_name_is_a_mistake(command: str, named: str):
    """`--data "$TEXT"` where TEXT is not set; it does not mean what is meant where nothing is said."""
    result = tfcli(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tfcli: {named} is empty, and names nothing; see `tfcli ")


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--size", DIGITS],
        ["train", f"--size={DIGITS}"],
        ["train", f"--{DIGITS}"],
        [DIGITS],
        ["run", "a", DIGITS],
        ["train", "--preset", DIGITS],
        ["generate", "run", "--beam", DIGITS],
        ["generate", "run", "--max-new-tokens", DIGITS[:4000]],
        ["inspect", "attention", "run", "text", "--layer", DIGITS[:4000]],
        ["train", "--set", f"train.steps={DIGITS}"],
        ["train", "--set", DIGITS],
        ["prepare", f"builtin:{DIGITS}", "--tokenizer", "t.json", "--out", "d"],
        ["prepare", f"hf:{DIGITS}", "--tokenizer", "t.json", "--out", "d"],
    ],
)
def test_a_value_of_thousands_of_letters_is_quoted_in_part(command: list[str]):
    result = tfcli(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "…" in result.stderr
    assert "9" * 81 not in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["inspect", "attention", "RUN", "Tom", "--rows", f"{DIGITS}:"],
        ["inspect", "attention", "RUN", "Tom", "--head", "0", "--against-head", f"{DIGITS}.1"],
        ["inspect", "cost", "RUN", "--heads", DIGITS],
        ["inspect", "neighbours", "RUN", DIGITS],
        ["generate", "RUN", "Tom", "--checkpoint", DIGITS],
        ["tokenize", "decode", "RUN", DIGITS],
        ["evaluate", "RUN", f"builtin:{DIGITS}"],
        ["inspect", "positions", "--encoding", DIGITS],
    ],
)
def test_a_run_is_asked_with_thousands_of_digits(trained: Callable[[str], Path], options: list[str]):
    run = str(trained("decoder"))
    result = tfcli(*(run if word == "RUN" else word for word in options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "9" * 81 not in result.stderr and "fault" not in result.stderr, result.stderr[:300]


@pytest.mark.parametrize(
    "command", ["run NAME", "train --data NAME", "train --out NAME", "generate NAME x", "export NAME --out x"]
)
def test_a_name_that_no_file_can_have_is_wrong_before_any_work(command: str):
    result = tfcli(*command.replace("NAME", "n" * 300).split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "too long" in result.stderr


@pytest.mark.parametrize("command", ["--help", "-h", "train --help", "tokenize encode -h", "--version"])
def test_help_and_version_are_no_errors(command: str):
    result = tfcli(*command.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


def test_a_text_on_stdin_that_never_ends_is_refused(trained: Callable[[str], Path]):
    result = tfcli("tokenize", "encode", trained("decoder"), "-", stdin=b" " * ((64 << 20) + 1))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "tfcli: The text on stdin is longer than 67,108,864 bytes; give it in parts.\n"
