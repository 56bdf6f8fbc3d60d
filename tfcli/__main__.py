"""``tfcli`` and ``python -m tfcli``: signals are answered before anything is loaded, then the command line is run."""

import _signal  # type: ignore[import-not-found]  # built in; `signal` loads others, from the working folder too
import os
import sys

_NO_MEMORY = b"tfcli: There is not enough memory; raise the limit on memory, or close other programs.\n"

_signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # no traceback until `main` answers


def main() -> None:
    """Run the command line and exit with the documented code."""
    try:
        _run()
    except MemoryError:  # before there was anything that answers errors
        os.write(2, _NO_MEMORY)
        raise SystemExit(1) from None


def _run() -> None:
    first = sys.path[0]
    if not sys.flags.safe_path and os.path.isdir(first) and os.path.samefile(first, "."):  # noqa: PTH112, PTH121
        del sys.path[0]  # by `python -m`: files of the working folder are no modules
    if "_TFCLI_COMPLETE" in os.environ:  # by what `tfcli completion` has printed, with the line
        from tfcli.cli.candidates import answer

        return answer(os.environ["_TFCLI_COMPLETE"], *sys.argv[1:2])
    os.environ["PYTHONSAFEPATH"] = "1"  # nor are they for processes that a library starts
    from tfcli.console.signals import leave_on_signals, silence_exit

    leave_on_signals()
    from tfcli.cli.main import main as run

    code: object = 0
    try:
        run()
    except SystemExit as ended:
        code = ended.code
        raise
    finally:
        leave_on_signals(code)
        silence_exit()


if __name__ == "__main__":
    main()
