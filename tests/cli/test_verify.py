"""`tfcli verify` as it is typed."""

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verification.trained import train
from tfcli.verification import verify as checks
from tfcli.verification.check import Finding, Skipped, VerifiedRun, at_most, proof

from .commands import process, snapshot, tfcli


@proof("one")
def one(subject: VerifiedRun) -> Finding:
    """One is one."""
    return at_most(0, 0, "numbers")


@proof("two")
def two(subject: VerifiedRun) -> Finding:
    """Two are there."""
    return at_most(5e-3, 1e-9, "of the largest number", "at the second")


@proof("three")
def three(subject: VerifiedRun) -> Finding:
    """Three do not apply."""
    raise Skipped("there are two")


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("verified") / "run")


@pytest.fixture
def with_checks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Look only at these."""
    return lambda *proofs: monkeypatch.setattr(checks, "PROOFS", proofs)


def test_a_sound_run_is_proved_in_rows_and_left_as_it_was(run: Path):
    before = snapshot(run)
    result = tfcli("verify", run, "--threads", "1")
    assert result.exit_code == 0, result.stdout + result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert "".join(lines[:3]).replace(" ", "").startswith(f"{run}·decoderread:itsownvalidationtext")
    assert all(any(proof.name in line for line in lines) for proof in checks.PROOFS)
    assert "✗" not in result.stdout and " proved" in lines[-1]
    assert max(map(len, lines)) <= 80
    assert snapshot(run) == before


def test_json_is_one_line_with_the_keys_of_the_contract(run: Path, with_checks: Callable[..., None]):
    with_checks(one, three)
    result = tfcli("verify", run, "--json")
    assert result.exit_code == 0 and result.stdout.count("\n") == 1 and result.stderr == ""
    value = json.loads(result.stdout)
    assert value["passed"] is True and value["run"] == str(run) and value["architecture"] == "decoder"
    assert [(check["name"], check["status"]) for check in value["checks"]] == [("one", "passed"), ("three", "skipped")]
    assert value["checks"][0] | {"measured": 0.0, "limit": 0.0, "reason": ""} == value["checks"][0]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_fails_is_named_in_one_sentence_with_exit_1(form: list[str], run: Path, with_checks: Callable[..., None]):
    with_checks(one, two, three)
    result = tfcli("verify", run, *form)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and "two" in result.stderr and "one" not in result.stderr.split("failed")[1]
    if form:
        assert json.loads(result.stdout)["passed"] is False
    else:
        assert "at the second" in result.stdout and "1 proved   ✗ 1 failed   – 1 skipped" in result.stdout


def test_text_that_is_gone_is_made_up_and_that_is_said(run: Path, with_checks: Callable[..., None], tmp_path: Path):
    with_checks(one)
    copy = shutil.copytree(run, tmp_path / "run")
    data = json.loads((copy / "data.json").read_text())
    (copy / "data.json").write_text(json.dumps({**data, "fingerprint": "0" * 16}))
    result = tfcli("verify", copy)
    assert result.exit_code == 0
    assert "read: made-up text (The text of builtin:stories has changed" in result.stdout
    assert "its own validation text" in tfcli("verify", run).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["RUN", "--checkpoint", "999"], "keeps no checkpoint '999'"),
        (["RUN", "--device", "mps"], "There is no mps device"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(arguments: list[str], said: str, run: Path):
    result = tfcli("verify", *[str(run) if word == "RUN" else word for word in arguments])
    assert result.exit_code == 2 and said in result.stderr and result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_damaged_run_is_refused(run: Path, tmp_path: Path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-1])
    result = tfcli("verify", copy)
    assert result.exit_code == 1 and "model.safetensors is truncated" in result.stderr


def test_ctrl_c_ends_it_with_130_and_leaves_nothing(run: Path, tmp_path: Path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    running = process("verify", run, TMPDIR=str(folder))
    assert running.stdout is not None
    running.stdout.readline()  # the run is loaded, and the first check begins
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in errors and errors.count("\n") == 1
    assert [path for path in folder.iterdir() if not path.name.startswith("torchinductor")] == []
