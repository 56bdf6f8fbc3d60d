"""Launcher of the workers of `--nproc`: processes on this machine, which find each other through a file."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tfcli.console.signals import StopRequest, exit_code_of, explained, stop_on_signals
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError
from tfcli.machine import LAUNCH, Popen, child, temporary_folder

if TYPE_CHECKING:
    from tfcli.training.distributed import Workers

RESTARTS = 3  # how often all workers are started again after one has died
_ENDED = "exit-code"
_PATIENCE = 10.0  # seconds for which the other workers may go on after the end of the first, which is that of the run


def launch(command: Sequence[str], processes: int) -> None:
    """Run a command of tfcli as several workers, wait until all have ended, and end with the exit code of the first. A
    signal is passed on to all of them; when one dies, all are started again, until a TfcliError after `RESTARTS`."""
    died = 0
    with temporary_folder() as private:
        for restart in range(RESTARTS + 1):
            folder = private / str(restart)
            folder.mkdir()
            ended = folder / _ENDED
            try:
                died = _died(command, processes, folder, restart)
            except KeyboardInterrupt as stopped:
                if not ended.is_file():
                    raise
                raise SystemExit(exit_code_of(stopped)) from None  # the first worker has said all there is to say
            if code := int(ended.read_text()) if ended.is_file() else 0:
                raise SystemExit(code)
            if not died:
                return
    raise TfcliError(f"Workers died {RESTARTS + 1} times, the last with exit code {died}", "see what they said above")


def _died(command: Sequence[str], processes: int, folder: Path, restart: int) -> int:
    """Run the workers until all have come to their end: 0; or one has died, and the others with it: its exit code."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    place = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "TORCHELASTIC_RESTART_COUNT": restart}
    shared = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads), LAUNCH: folder, **place}
    interfaces = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]  # that no other machine reaches
    shared |= {f"{library}_SOCKET_IFNAME": name for name in interfaces for library in ("GLOO", "NCCL")}
    with ExitStack() as stack, stop_on_signals(_PassedOn(folder)) as request:
        assert isinstance(request, _PassedOn)
        for rank in range(processes):
            variables = {**shared, "RANK": rank, "LOCAL_RANK": rank}
            worker = child("tfcli", *command, environment={name: str(value) for name, value in variables.items()})
            request.workers.append(stack.enter_context(worker))
        patience = _PATIENCE
        while patience > 0:
            codes = [worker.poll() for worker in request.workers]
            if any(codes) or None not in codes:
                return next(filter(None, codes), 0)
            time.sleep(0.05)
            patience -= 0.05 * (codes[0] == 0)
    return 0


@contextmanager
def working(terminal: Terminal) -> Iterator["Workers"]:
    """Train with the others, where torchrun or `launch` has started several. The first one speaks for all."""
    from tfcli.training import distributed

    if not distributed.one_of_several():
        yield distributed.SINGLE_PROCESS
        return
    is_first, folder = os.environ["RANK"] == "0", os.environ.get(LAUNCH)
    if not is_first:
        terminal.quiet, terminal.verbose = True, False
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        terminal.note("A worker has died. All go on together from the last checkpoint.")
    if folder:
        Path(folder, os.environ["RANK"]).touch()
    try:
        with distributed.process_group() as workers:
            yield workers
    except distributed.WorkerLostError as error:
        if is_first:
            terminal.note(str(error))
        raise SystemExit(1) from None
    except (TfcliError, KeyboardInterrupt) as error:  # all of them end with it
        sentence, code = explained(error)
        if is_first or isinstance(error, distributed.WorkerFailedError):
            terminal.error(sentence)
        if folder and is_first:
            Path(folder, _ENDED).write_text(str(code))
        raise SystemExit(0 if folder else code) from None  # torchrun takes any but 0 for a death, and starts all again


def launched_with() -> list[str]:
    """The option that has started this worker; nothing without `launch`."""
    return ["--nproc", os.environ["WORLD_SIZE"]] if LAUNCH in os.environ else []


class _PassedOn(StopRequest):
    """Passes two signals on to the workers, once all listen; any other one stops the launcher, and them with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.workers, self.passed = folder, list[Popen[str]](), 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        listen = [(self.folder / str(rank)).exists() for rank in range(len(self.workers))] or [False]
        if self.passed == 2 or not all(listen):
            super().receive(number, frame)
        self.passed += 1
        for worker in self.workers:
            worker.send_signal(getattr(signal, "CTRL_BREAK_EVENT", number))  # all that Windows passes to a group
