"""Preparing on a Ray cluster: the same bytes, also where one of its processes is killed while it works."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import tfcli
from tfcli.corpora.stories import stories


def test_without_ray_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert tfcli("tokenize", "train", "builtin:stories", "--out", str(tmp_path / "t.json"), "--quiet").exit_code == 0
    words = ["builtin:stories", "--tokenizer", str(tmp_path / "t.json"), "--out", str(tmp_path / "no")]
    done = tfcli("prepare", *words, "--engine", "ray")
    assert done.exit_code == 2
    assert "--engine ray needs the library ray; pip install 'tfcli[ray]'" in done.stderr
    assert not (tmp_path / "no").exists()
    done = tfcli("prepare", *words, "--address", "somewhere:1")
    assert "--address somewhere:1 is of an engine" in done.stderr


@pytest.mark.slow
def test_a_cluster_of_which_one_process_is_killed_gives_the_bytes_of_one(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    texts = (story for story, _ in zip(stories(0), range(20_000), strict=False))
    (tmp_path / "s.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert tfcli("tokenize", "train", str(tmp_path / "s.jsonl"), "--out", str(tmp_path / "t.json")).exit_code == 0
    command = ["prepare", str(tmp_path / "s.jsonl"), "--tokenizer", str(tmp_path / "t.json"), "--quiet", "--out"]
    assert tfcli(*command, str(tmp_path / "one")).exit_code == 0
    words = [*command, str(tmp_path / "ray"), "--engine", "ray", "--workers", "3"]
    process = subprocess.Popen([sys.executable, "-m", "tfcli", *words])
    killed = 0
    while process.poll() is None and not killed:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if "_ray_share" in " ".join(child.cmdline()) and [*tmp_path.glob(".ray.*.chunks/*.npz")]:
                    child.kill()
                    killed += 1
                    break
            except psutil.Error:
                continue
        time.sleep(0.02)
    assert process.wait() == 0
    assert killed == 1
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "ray" / path.name).read_bytes() == path.read_bytes()
