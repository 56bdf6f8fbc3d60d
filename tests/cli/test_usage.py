"""A command line that cannot be read: one sentence with the value and the remedy, and exit code 2."""

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


@pytest.mark.parametrize("command", ["--help", "-h", "train --help", "tokenize encode -h", "--version"])
def test_help_and_version_are_no_errors(command: str):
    result = tfcli(*command.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout
