"""Every idea's test catches its mutation: planted in a copy of the package, it makes the test fail."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.generate import ROOT
from tests.docs.lectures import IDEAS
from tests.lectures.proofs import PROOFS, Proof

_SKIPPED = shutil.ignore_patterns("__pycache__", ".*")
_each_proof = pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: proof.id)


def test_every_idea_has_a_proof_and_every_proof_an_idea():
    assert list(PROOFS) == [idea.id for idea in IDEAS]


def test_the_package_has_neither_tests_nor_mutations():
    packaged = (ROOT / "tfcli/lectures/lectures.toml").read_text(encoding="utf-8")
    for lecture in tomllib.loads(packaged)["lectures"]:
        for idea in lecture["ideas"]:
            assert not {"test", "mutation"} & idea.keys(), idea["id"]


@_each_proof
def test_the_test_of_an_idea_exists(proof: Proof):
    path, name = proof.test.split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


@_each_proof
def test_a_mutation_is_of_a_line_that_occurs_once_in_its_file(proof: Proof):
    mutation = proof.mutation
    count = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old)
    assert count == 1, f"{proof.id}: {mutation.old!r} occurs {count} times in {mutation.file}, not once"
    assert "\n" not in mutation.old + mutation.new and mutation.old != mutation.new


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
    done = run(copy, *dict.fromkeys(proof.test for proof in PROOFS.values()))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-3000:]


@pytest.mark.slow
@_each_proof
def test_it_fails_with_the_mutation(proof: Proof, copy: Path):
    file = copy / proof.mutation.file
    before = file.read_text(encoding="utf-8")
    after = before.replace(proof.mutation.old, proof.mutation.new)
    if file.suffix == ".py":
        compile(after, file, "exec")  # a program that is no program would fail anything
    stands = file.stat()
    try:
        file.write_text(after, encoding="utf-8")
        done = run(copy, proof.test)
    finally:
        file.write_text(before, encoding="utf-8")
        os.utime(file, ns=(stands.st_atime_ns, stands.st_mtime_ns))
    assert done.returncode == 1, f"{proof.test} does not catch it:\n{done.stdout[-2000:]}"
    last = done.stdout.strip().splitlines()[-1]  # as "1 failed, 1 passed in 2.50s"
    assert "failed" in last and "error" not in last, done.stdout[-2000:]
