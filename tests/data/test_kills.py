"""A preparation that is killed at random instants ends with the bytes of an unbroken one, whatever it had done."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tfcli.corpora.stories import stories

# Chunks of a few documents, so that a kill leaves some of many.
PROGRAM = """
from tfcli.cli.main import main
from tfcli.data import chunks
chunks.batched.__defaults__ = (4000,)
main()
"""


def files(folder: Path) -> dict[str, bytes]:
    """What is in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_preparation_that_is_killed_ends_as_the_unbroken_one(tmp_path: Path, kills: int) -> None:
    source = tmp_path / "stories.jsonl"
    texts = (story for story, _ in zip(stories(0), range(1500), strict=False))
    source.write_text("".join(json.dumps({"text": story}) + "\n" for story in texts))
    tokenizer = ["tokenize", "train", str(source), "--vocab-size", "300", "--out", str(tmp_path / "tok.json")]
    subprocess.run([sys.executable, "-m", "tfcli", *tokenizer], check=True, capture_output=True)

    def begin(out: str) -> "subprocess.Popen[bytes]":
        command = ["prepare", str(source), "--tokenizer", str(tmp_path / "tok.json"), "--out", str(tmp_path / out)]
        return subprocess.Popen([sys.executable, "-c", PROGRAM, *command, "--quiet"], stdout=subprocess.DEVNULL)

    began = time.monotonic()
    assert begin("unbroken").wait() == 0
    whole = time.monotonic() - began
    killed = attempt = 0
    with_chunks = 0
    while killed < kills:
        process = begin(f"run-{attempt}")
        time.sleep(random.uniform(0.2, 1.0) * whole)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            killed += 1
            with_chunks += any(tmp_path.glob(f".run-{attempt}.*.chunks/*.npz"))
        else:
            assert process.returncode == 0
            attempt += 1
    assert begin(f"run-{attempt}").wait() == 0
    for number in range(attempt + 1):
        assert files(tmp_path / f"run-{number}") == files(tmp_path / "unbroken")
        assert not [*tmp_path.glob(f".run-{number}.*")]
    assert with_chunks > 0 or kills < 10
