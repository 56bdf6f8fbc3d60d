"""Several processes on this machine for one training: what `torchrun --standalone` does, from within."""

import logging
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tfcli.cli.exits import explained
from tfcli.cli.signals import StopRequest, exit_code_of, stop_on_signals
from tfcli.cli.terminal import Terminal
from tfcli.errors import TfcliError

if TYPE_CHECKING:
    from tfcli.training.workers import Workers

LAUNCH = "TFCLI_LAUNCH"
"""The environment variable that names a folder between the launcher and its workers."""

RESTARTS = 3
"""How often all workers are started again after one has died."""

_ENDED = "exit-code"


def launch(command: Sequence[str], processes: int) -> None:
    """Run a command of tfcli as several workers, wait until all have ended, and end with the exit code of the first. A
    signal is passed on to all of them, and a second one stops them at once; when one dies, all are started again.

    Raises:
        TfcliError: workers have died too often.
        SystemExit: with the first worker's exit code, if that is not 0.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from tfcli.training.workers import OWN_STORE

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the workers say it in plain words
    os.environ[OWN_STORE] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        signals_to_handle="SIGUSR2",  # the others are passed on here
    )
    with tempfile.TemporaryDirectory(prefix="tfcli-") as folder, stop_on_signals(_PassedOn(Path(folder))):
        os.environ[LAUNCH] = folder
        ended = Path(folder, _ENDED)
        try:
            elastic_launch(config, sys.executable)("-m", "tfcli", *command)
        except KeyboardInterrupt as stopped:
            if not ended.is_file():
                raise
            raise SystemExit(exit_code_of(stopped)) from None  # the first worker has said all there is to say
        except ChildFailedError as error:
            raise TfcliError(
                f"Workers died {RESTARTS + 1} times, the last with exit code {error.get_first_failure()[1].exitcode}",
                "see what they said above",
            ) from error
        code = int(ended.read_text()) if ended.is_file() else 0
    if code:
        raise SystemExit(code)


@contextmanager
def working(terminal: Terminal) -> Iterator["Workers"]:
    """Train with the others, where torchrun or `launch` has started this process as one of several. The first one
    speaks for all; of the others only faults are heard."""
    from tfcli.training.workers import ALONE, WorkerFailed, WorkerLost, joined, started_by_torchrun

    if not started_by_torchrun():
        yield ALONE
        return
    is_first = os.environ["RANK"] == "0"
    _register(terminal, is_first)
    try:
        with joined() as workers:
            yield workers
    except WorkerLost as error:
        if is_first:
            terminal.note(str(error))
        raise SystemExit(1) from None
    except (TfcliError, KeyboardInterrupt) as error:  # all of them end with it
        sentence, code = explained(error)
        if is_first or isinstance(error, WorkerFailed):
            terminal.error(sentence)
        raise SystemExit(_told(code, is_first)) from None


def launched_with() -> list[str]:
    """The option that has started this worker; nothing without `launch`."""
    return ["--nproc", os.environ["WORLD_SIZE"]] if LAUNCH in os.environ else []


class _PassedOn(StopRequest):
    """Passes signals on to the workers that have registered, who then stop together."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def receive(self, number: int, frame: FrameType | None) -> None:
        workers = [int(file.read_text()) for file in self.folder.glob("*.pid")]
        self.armed = bool(workers)
        super().receive(number, frame)
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, number)


def _register(terminal: Terminal, is_first: bool) -> None:
    if not is_first:
        terminal.quiet, terminal.verbose = True, False
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        terminal.note("A worker has died. All go on together from the last checkpoint.")
    if LAUNCH in os.environ:
        folder = Path(os.environ[LAUNCH])
        (folder / _ENDED).unlink(missing_ok=True)
        written = folder / f"{os.environ['RANK']}.tmp"
        written.write_text(str(os.getpid()))
        written.rename(written.with_suffix(".pid"))


def _told(code: int, is_first: bool) -> int:
    """Leave the exit code with the launcher, if there is one: torchrun takes any but 0 for a death, and starts all
    again."""
    if LAUNCH not in os.environ:
        return code
    if is_first:
        Path(os.environ[LAUNCH], _ENDED).write_text(str(code))
    return 0
