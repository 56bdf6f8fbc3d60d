"""Writes docs/lectures/: what the commands of each idea print. `python -m tests.docs.lectures FOLDER [ID…]`

FOLDER holds runs/decoder, runs/encoder and runs/translator, trained as docs/lectures.md says; with ids, those alone are
written.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.generate import DOCS
from tfcli.lectures import Idea, lectures

OUTPUTS = DOCS / "lectures"
IDEAS = [idea for lecture in lectures().lectures for idea in lecture.ideas]


def output(idea: Idea) -> Path:
    """The file with what an idea's commands have printed."""
    return OUTPUTS / f"{idea.id}.txt"


def printed(idea: Idea, folder: Path) -> str:
    """What an idea's commands print in a terminal of 80 columns without colour, each under the command itself."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    parts = []
    for command in idea.commands:
        words = [sys.executable, "-m", "tfcli", *shlex.split(command)[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=environment)
        parts.append(shown(command, done.stdout))
    return "\n".join(parts)


def shown(command: str, text: str) -> str:
    """What a command has printed, under the command, without blanks at the ends of lines."""
    return "\n".join([f"$ {command}", "", *map(str.rstrip, text.splitlines())]) + "\n"


def main(folder: Path, names: list[str]) -> None:
    """Run the commands and keep what they print."""
    OUTPUTS.mkdir(exist_ok=True)
    for idea in IDEAS:
        if not names or idea.id in names:
            output(idea).write_text(printed(idea, folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
