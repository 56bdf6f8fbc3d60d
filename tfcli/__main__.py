"""``tfcli`` and ``python -m tfcli``: signals are answered before anything is loaded, then the command line is run."""

import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback until `main` answers


def main() -> None:
    """Run the command line and exit with the documented code."""
    from tfcli.cli.signals import leave_on_signals

    leave_on_signals()
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
        del sys.path[0]  # by `python -m`: files of the working folder are no modules
    os.environ["PYTHONSAFEPATH"] = "1"  # nor are they for processes that a library starts
    from tfcli.cli.main import main as run

    code: object = 0
    try:
        run()
    except SystemExit as ended:
        code = ended.code
        raise
    finally:
        leave_on_signals(code)


if __name__ == "__main__":
    main()
