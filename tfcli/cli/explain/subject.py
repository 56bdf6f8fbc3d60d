"""What an explanation speaks of: a toy of the options, or a layer of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcli.cli.options import first_given, open_run

if TYPE_CHECKING:
    from tfcli.inspection.explain.subject import Subject


def toy_subject(text: str | None, of_run: Mapping[str, Any], **options: Any) -> "Subject":
    """A toy, with its own defaults for options that are None.

    Raises:
        UsageError: an option that only a run takes was given, or there is no such toy.
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.toy import EXAMPLE, toy

    if option := first_given(of_run):
        raise UsageError(f"A toy has no {option}", f"name a run with --run, or leave {option} out")
    given = {name: value for name, value in options.items() if value is not None}
    return toy(EXAMPLE if text is None else read_text(text), **given)


def run_subject(
    run: Path, text: str | None, of_toy: Mapping[str, Any], checkpoint: str, device: str, **options: Any
) -> "Subject":
    """A layer of a run on a text.

    Raises:
        UsageError: there is no text, an option of toys was given, or the run has no such layer.
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.run_layer import of_run

    if text is None:
        raise UsageError(f"The run {run} needs a text to read", "write one behind the command")
    if option := first_given(of_toy):
        raise UsageError(f"The run {run} has its own sizes and weights", f"leave {option} out, or leave --run out")
    return of_run(open_run(run, checkpoint, device), read_text(text), **options)
