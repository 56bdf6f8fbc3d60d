"""Child processes of tfcli: modules of its own, started in one way."""

import sys


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as a program, with this Python.

    `-P` keeps the working folder out of the module path: a `torch.py` that lies there is a file like any other.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
