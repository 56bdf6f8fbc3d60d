"""Where memory runs out: one sentence and exit code 1, also when none is left to say it with."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfcli.console import signals
from tfcli.console.terminal import Terminal

SENTENCE = "tfcli: There is not enough memory; "


@pytest.fixture(autouse=True)
def has_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals._Stopping, "no_memory", False)


class OutOfMemoryError(RuntimeError):
    """As PyTorch calls it on a GPU."""


def unloaded() -> ImportError:
    """As NumPy wraps what the loader says."""
    error = ImportError("Importing the numpy C-extensions failed.\nThis error can happen for many reasons")
    error.__cause__ = ImportError("libm.so.6: failed to map segment from shared object")
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        unloaded(),
    ],
)
def test_no_memory_is_one_sentence_even_where_the_terminal_has_none(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Terminal, "error", fail)
    monkeypatch.setattr(Terminal, "_console", fail)
    monkeypatch.setattr(signals, "_has_memory_limit", lambda: True)
    with pytest.raises(SystemExit) as ended, signals.exit_codes(Terminal()):
        raise error
    shown = capsys.readouterr()
    assert ended.value.code == 1
    assert shown.err.startswith(SENTENCE) and shown.err.count("\n") == 1
    assert shown.out == ""


def test_the_frames_that_hold_what_was_too_large_are_let_go(capsys: pytest.CaptureFixture[str]) -> None:
    error = MemoryError()
    with pytest.raises(SystemExit), signals.exit_codes(Terminal()):
        raise error
    assert error.__traceback__ is None
    assert SENTENCE in capsys.readouterr().err


def test_a_stream_for_which_there_is_no_memory_is_gone_around(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Exhausted:
        def write(self, _: str) -> int:
            raise MemoryError

    monkeypatch.setattr(sys, "stderr", Exhausted())
    with pytest.raises(SystemExit), signals.exit_codes(Terminal()):
        raise MemoryError
    monkeypatch.undo()
    assert capfd.readouterr().err.startswith(SENTENCE)


def test_a_library_that_cannot_be_loaded_without_a_limit_is_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that runs no programs has the same sentence of the loader."""
    monkeypatch.setattr(signals, "_has_memory_limit", lambda: False)
    assert not signals.is_out_of_memory(unloaded())
    assert not signals.is_out_of_memory(ImportError("No module named 'numpy'"))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_process_with_little_memory_ends_with_the_sentence(tmp_path: Path) -> None:
    """60 MB are enough for Python, and not for NumPy."""
    (tmp_path / "a.txt").write_text("one line\n" * 100)
    command = f"ulimit -v 60000; exec {sys.executable} -m tfcli train a.txt --steps 1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(SENTENCE) and ended.stderr.count("\n") == 1
    assert ended.stdout == ""
