"""Messages: long values lose their middle in the one place where errors are shown."""

from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tfcli.errors import readable


def test_a_message_of_a_usual_length_stays_as_it_is() -> None:
    sentence = "There is no file '" + "a/" * 140 + "'; check the path, or use builtin:stories."
    assert readable(sentence) == sentence


def test_a_long_word_keeps_its_beginning_and_its_end() -> None:
    """199 characters, "…", and 100 with the semicolon."""
    shown = readable("There is no file " + "a" * 5_000 + "b" * 5_000 + "; check the path.")
    assert shown == "There is no file " + "a" * 199 + "…" + "b" * 99 + "; check the path."


def test_a_long_message_keeps_its_problem_and_its_remedy() -> None:
    shown = readable("Bad value: " + "word " * 2_000 + "; give another.")
    assert len(shown) == 1_500
    assert shown.startswith("Bad value: word ") and shown.endswith("word ; give another.")


@pytest.mark.parametrize("length", [3_000, 10_000])
@pytest.mark.parametrize(
    "command",
    [
        ("runs", "show"),
        ("recipes", "show"),
        ("tokenize", "encode", "--special-tokens"),
        ("lectures", "show"),
        ("generate",),
        ("prepare", "--out", "out", "--tokenizer"),
    ],
    ids=lambda command: command[0] + "-" + command[1] if len(command) > 1 else command[0],
)
def test_no_message_of_a_command_is_longer_than_can_be_read(
    command: tuple[str, ...], length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tfcli(*command, "x" * length)
    assert result.exit_code == 2
    assert 20 < len(result.stderr) < 700
