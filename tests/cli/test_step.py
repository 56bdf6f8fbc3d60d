"""``--step`` at a terminal, and where there is none."""

import os
import re
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.commands import hears_signals, tfcli

pty = pytest.importorskip("pty")
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l\x1b[?25h"


class Typed:
    """A command at a terminal of 80 × 24."""

    def __init__(self, arguments: Sequence[object]) -> None:
        import fcntl
        import termios

        self.pid, self.terminal = pty.fork()
        if not self.pid:
            hears_signals()
            environment = {
                key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")
            }
            environment |= {"TERM": "xterm-256color"}
            words = [sys.executable, "-m", "tfcli", *map(str, arguments)]
            os.execve(sys.executable, words, environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def until(self, *words: str) -> str:
        """What is written until all of these words are."""
        seen, end = "", time.monotonic() + 60
        while not all(word in seen for word in words) and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    seen += os.read(self.terminal, 65536).decode(errors="replace")
                except OSError:
                    break
        assert all(word in seen for word in words), seen
        return seen

    def after(self, keys: str, *words: str) -> str:
        os.write(self.terminal, keys.encode())
        return self.until(*words)

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def lines(screen: str) -> list[str]:
    """The lines that a screen shows, without their colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).split("\r\n")


def test_keys_lead_through_the_steps_and_the_terminal_is_as_it_was() -> None:
    run = Typed(["explain", "masking", "--step"])
    first = run.until(ENTERED, "Step 1 of 5")
    assert "31" in first and "INF721's scores, d_k = 3" in first, "the first screen has the heading, too"
    assert len(lines(first)) == 24, "exactly the terminal's height: nothing scrolls away"
    second = run.after("\r", "Step 2 of 5")
    assert "Mask" in second and "17.90" not in second, "the second step and no other"
    run.after(" ", "Step 3 of 5")
    run.after("\x7f", "Step 2 of 5")
    run.after("\x1b[C", "Step 3 of 5")
    run.after("\x1b[D", "Step 2 of 5")
    run.after("\r\r\r\r\r\r\r", "Step 5 of 5", "What the lecture prints otherwise")
    assert LEFT in run.after("q", LEFT)
    assert run.code() == 0


def test_a_step_higher_than_the_screen_is_shown_whole_in_several() -> None:
    run = Typed(["explain", "attention", "--d-model", "9", "--step"])
    run.until("Step 1 of ")
    run.after("\r\r", "Step 3 of ", "Words and positions")
    assert "A one-hot vector picks" in run.after("\r", "the rest")
    run.after("q", LEFT)
    assert run.code() == 0


@pytest.mark.parametrize(("stop", "code"), [("\x03", 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_restored_when_it_is_stopped(stop: str | signal.Signals, code: int) -> None:
    run = Typed(["explain", "decoding", "--step"])
    run.until("Step 1 of ")
    if isinstance(stop, str):
        run.after(stop, LEFT, "Stopped;")
    else:
        os.kill(run.pid, stop)
        run.until(LEFT, "Stopped;")
    assert run.code() == code


def test_inference_is_a_picture_a_token(trained: Callable[[str], Path]) -> None:
    run = Typed(
        ["generate", trained("decoder"), "Tom", "--trace", "--step", "--max-new-tokens", "2", "--temperature", "0"]
    )
    first = "\n".join(lines(run.until("Step 1 of 3")))
    assert "the text  Tom\n" in re.sub(" +\n", "\n", first) and "│ decoder │" in first
    chosen = re.search(r"▸ (\S+)", first)[1].replace("·", " ")  # type: ignore[index]
    assert f"the text  Tom{chosen}" in "\n".join(lines(run.after("\r", "Step 2 of 3"))), "what came is read again"
    run.after("q", LEFT)
    assert run.code() == 0


@pytest.mark.parametrize("what", ["attention", "layer", "masking", "positions", "decoding"])
def test_without_a_terminal_all_steps_come_at_once_and_say_so(what: str) -> None:
    stepped, whole = tfcli("explain", what, "--step"), tfcli("explain", what)
    assert stepped.exit_code == 0 and stepped.stdout == whole.stdout
    assert "--step waits for keys, and this is no terminal" in " ".join(stepped.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["explain", "masking", "--step", "--json"], "--step shows pictures, and --json and --csv print none"),
        (["explain", "layer", "--shapes", "--step"], "--shapes is one table without numbers"),
    ],
)
def test_what_has_no_steps(arguments: list[str], problem: str) -> None:
    result = tfcli(*arguments)
    assert (result.exit_code, result.stdout) == (2, "") and problem in " ".join(result.stderr.split())


def test_generate_steps_through_a_trace_alone(trained: Callable[[str], Path]) -> None:
    result = tfcli("generate", trained("decoder"), "Tom", "--step")
    assert result.exit_code == 2 and "add --trace" in " ".join(result.stderr.split())
