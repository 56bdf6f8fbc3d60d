"""Child processes: none runs what lies in the working folder, and none outlives whoever started it."""

import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfcli
from tests.cli.commands import SHRUNK, hears_signals
from tfcli.machine import PIPE, child, python_command, temporary_folder

SLEEP = ("timeit", "-n1", "-r1", "__import__('time').sleep(600)")
PLANTED = "torch json numpy typing tfcli sitecustomize usercustomize random typer rich runpy ctypes datasets tokenizers"
TINY = [*SHRUNK, "--threads", "1", "--device", "cpu"]


def ended(process: int) -> bool:
    """Whether it has gone, after a while at most."""
    for _ in range(200):
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def plant(folder: Path, names: str) -> None:
    """Write modules that leave a trace when they are run, and fail."""
    for name in names.split():
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write(__name__ + ' ')\nraise SystemExit(99)\n"
        )


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "cost", "--size", "tiny"],
        pytest.param(
            ["bench", "train", "--size", "tiny", "--steps", "1", *SHRUNK, "--threads", "1"], marks=pytest.mark.slow
        ),
        pytest.param(["bench", "generate", "--size", "tiny", "--rounds", "1"], marks=pytest.mark.slow),
        pytest.param(["train", *TINY, "--nproc", "2", "--out", "new"], marks=pytest.mark.slow),
        pytest.param(["plan", "--minutes", "0.5", "--check", "--device", "cpu", *SHRUNK[4:6]], marks=pytest.mark.slow),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_files_of_the_working_folder_are_no_modules(words: list[str], tmp_path: Path):
    plant(tmp_path, PLANTED)
    done = subprocess.run(python_command("tfcli", *words), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_python_m_loads_no_library_from_the_working_folder(tmp_path: Path):
    """What Python itself imports before tfcli begins is not in its hands: `python -P -m tfcli` is."""
    plant(tmp_path, "torch numpy typer rich pydantic signal typing")
    words = ["inspect", "cost", "--size", "tiny"]
    done = subprocess.run([sys.executable, "-m", "tfcli", *words], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_what_a_child_starts_is_isolated_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path, "random")
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import random; print(random.__file__)'])"
    with child("timeit", "-n1", "-r1", code, stdout=PIPE) as process:
        out, _ = process.communicate()
    assert str(tmp_path) not in out and "random.py" in out


def test_python_m_works_in_a_folder_that_has_been_removed(tmp_path: Path):
    command = f"mkdir gone && cd gone && rmdir ../gone && {shlex.quote(sys.executable)} -m tfcli --version"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_temporary_folders_are_made_in_one_way():
    """And the package imports nothing before `__main__` answers signals."""
    package = Path(tfcli.__file__).parent
    others = {"TemporaryDirectory", "mkdtemp"}
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {getattr(node, "attr", None), getattr(node, "name", None), getattr(node, "id", None)}
            assert not names & others, f"{path}:{node.lineno}"  # type: ignore[attr-defined]
    imports = (ast.Import, ast.ImportFrom)
    assert not any(isinstance(node, imports) for node in ast.parse(Path(tfcli.__file__).read_text()).body)


def test_a_temporary_folder_goes_though_a_signal_comes_while_it_is_removed(monkeypatch: pytest.MonkeyPatch):
    removed, rmtree = [], shutil.rmtree

    def interrupted(folder: Path, **_: object) -> None:
        removed.append(folder)
        if len(removed) == 1:
            raise KeyboardInterrupt
        rmtree(folder)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder() as folder:
        (folder / "file").touch()
    assert removed == [folder, folder] and not folder.exists()


def test_a_temporary_folder_goes_though_a_signal_comes_while_it_is_made(monkeypatch: pytest.MonkeyPatch):
    made, mkdir = [], Path.mkdir

    def interrupted(folder: Path, **_: int) -> None:
        mkdir(folder)
        made.append(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder():
        pass
    assert len(made) == 1 and not made[0].exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_a_child_has_started_ends_with_it_though_the_child_has_died_before():
    code = (
        "import os, subprocess, sys; p = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL); "
        "print(p.pid, flush=True); os._exit(3)"
    )
    with child("timeit", "-n1", "-r1", code, stdout=PIPE) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        assert process.wait() == 3
    assert ended(grandchild)


def test_a_child_ends_with_the_block():
    with pytest.raises(KeyboardInterrupt), child(*SLEEP) as process:
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_ends_with_its_parent_however_that_ends(number: signal.Signals):
    code = f"from tfcli.machine import child\nwith child(*{SLEEP}) as one:\n    print(one.pid, flush=True); one.wait()"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=PIPE, stderr=PIPE, text=True, preexec_fn=hears_signals
    )
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    parent.send_signal(number)
    parent.communicate(timeout=30)
    assert ended(grandchild)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_sigterm_in_the_middle_of_a_checked_plan_leaves_nothing(tmp_path: Path):
    words = ["plan", "--minutes", "0.5", "--check", "--device", "cpu", "--threads", "1", *SHRUNK[4:6]]
    parent = subprocess.Popen(
        [sys.executable, "-m", "tfcli", *words],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=hears_signals,
    )
    assert parent.stderr is not None
    for line in parent.stderr:
        if line.startswith("Training it"):
            break
    time.sleep(0.5)
    [training] = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.terminate()
    _, err = parent.communicate(timeout=30)
    assert (parent.returncode, err) == (143, "tfcli: Stopped; nothing is left half-written.\n")
    assert ended(int(training))
    assert [path for path in tmp_path.iterdir() if "torchinductor" not in path.name] == []  # PyTorch's own cache
