"""Runs commands whose stdout cannot be written: `python -m tests.support.outputs full|gone` with a JSON list of command
lines on stdin. Prints, for each, its exit code and what it said on stderr.

Every command is a fork of this process, which has loaded the command line, and ends as any Python does.
"""

import gc
import json
import os
import sys
import tempfile

from tfcli.__main__ import main


def _unwritable(how: str) -> int:
    if how == "full":
        return os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def _run(how: str, answers: int) -> list[str] | None:
    """The words of a command for the fork that is to run it; None: all have run."""
    for words in json.load(sys.stdin):
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                os.dup2(_unwritable(how), 1)
                os.dup2(said.fileno(), 2)
                return ["tfcli", *words]
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            os.write(answers, (json.dumps([words, code, said.read()]) + "\n").encode())
    return None


if __name__ == "__main__":
    gc.freeze()  # a fork need not look through what it has inherited
    command = _run(sys.argv[1], os.dup(1))
    if command is not None:
        sys.argv = command
        main()
