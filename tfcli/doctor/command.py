"""``tfcli doctor``: what tfcli runs on here, what makes it slow, and a block for a bug report."""

import os
import sys
from typing import Annotated

import typer

from tfcli.console.options import Json, command
from tfcli.console.terminal import Terminal, is_terminal


@command
def doctor(
    terminal: Terminal,
    report: Annotated[bool, typer.Option("--report", help="For a bug report: no paths or names of yours.")] = False,
    json: Json = False,
) -> None:
    """Look at what tfcli runs on: versions, devices, memory, cache, terminal.

    With what is slow or missing here, and what to do about it.

    Examples:

      tfcli doctor
      tfcli doctor --report > report.md
    """
    from tfcli.doctor import TerminalFacts
    from tfcli.doctor.compute import diagnose
    from tfcli.doctor.view import DoctorView, bug_report
    from tfcli.errors import UsageError

    if report and json:
        raise UsageError("--report and --json are two forms", "leave one of them out; --json names folders of yours")
    shown, colors = terminal.out, terminal.out.color_system or "none"
    encoding, name = sys.stdout.encoding or "", os.environ.get("TERM", "")
    found = diagnose(TerminalFacts(shown.width, shown.height, colors, encoding, is_terminal=is_terminal(), name=name))
    if report:
        terminal.text(bug_report(found))
        return
    terminal.result(found, DoctorView, json=json)
    if not json:
        terminal.note("For a bug report, without paths or names of yours: tfcli doctor --report")
