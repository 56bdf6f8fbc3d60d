"""Every idea's test catches its mutation: planted in a copy of the package, it makes the test fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.generate import ROOT
from tests.docs.lectures import IDEAS
from tfcli.lectures import Idea

_SKIPPED = shutil.ignore_patterns("__pycache__", ".*")


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_a_mutation_is_of_a_line_that_stands_once_in_its_file(idea: Idea):
    old, new = idea.mutation["old"], idea.mutation["new"]
    times = (ROOT / idea.mutation["file"]).read_text(encoding="utf-8").count(old)
    assert times == 1, f"{idea.id}: {old!r} stands {times} times in {idea.mutation['file']}, and is to stand there once"
    assert "\n" not in old + new and old != new


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as far as tests need it; nothing of it is the original."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("tfcli", "tests", "recipes", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=_SKIPPED)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    return folder


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests against the copy, which stands before every other tfcli also for processes that they start."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "slow or not slow", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONSAFEPATH": "",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder),
    }
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)


@pytest.mark.slow
def test_every_idea_s_test_passes(copy: Path):
    done = run(copy, *dict.fromkeys(idea.test for idea in IDEAS))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_it_fails_with_the_mutation(idea: Idea, copy: Path):
    file = copy / idea.mutation["file"]
    before = file.read_text(encoding="utf-8")
    after = before.replace(idea.mutation["old"], idea.mutation["new"])
    if file.suffix == ".py":
        compile(after, file, "exec")  # a program that is no program would fail anything
    stands = file.stat()
    try:
        file.write_text(after, encoding="utf-8")
        done = run(copy, idea.test)
    finally:
        file.write_text(before, encoding="utf-8")
        os.utime(file, ns=(stands.st_atime_ns, stands.st_mtime_ns))
    assert done.returncode == 1, f"{idea.test} does not catch it:\n{done.stdout[-2000:]}"
    last = done.stdout.strip().splitlines()[-1]  # as "1 failed, 1 passed in 2.50s"
    assert "failed" in last and "error" not in last, done.stdout[-2000:]
