"""Writes docs/lectures/: what each command of docs/lectures.md prints. `python -m tests.docs.lectures FOLDER`

FOLDER holds runs/decoder, runs/encoder and runs/translator, trained as the page says.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.generate import DOCS

PAGE = DOCS / "lectures.md"
OUTPUTS = DOCS / "lectures"
_ROW = re.compile(r"^\| (\w+) \| (.*) \| `(tfcli .*?)` \| \[output\]\((.*?)\) · \[test\]\((.*?)\) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """An idea of a lecture, and what shows and what holds it; links as the page has them."""

    name: str
    idea: str
    command: str
    output: Path
    test: Path


def rows() -> list[Row]:
    """Of the page, in its order."""
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return [Row(name, idea, command, DOCS / out, (DOCS / test).resolve()) for name, idea, command, out, test in found]


def printed(command: str, folder: Path) -> str:
    """What a command prints in a terminal of 80 columns without colour, under the command itself."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "tfcli", *shlex.split(command)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join([f"$ {command}", "", *lines]) + "\n"


def main(folder: Path) -> None:
    """Run every command and keep what it prints."""
    OUTPUTS.mkdir(exist_ok=True)
    for row in rows():
        row.output.write_text(printed(row.command, folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
