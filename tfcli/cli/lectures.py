"""``tfcli lectures``: the map of five lectures, and every idea of one, shown one after the other."""

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tfcli.console.options import Json, argument, command
from tfcli.console.terminal import Terminal, is_terminal
from tfcli.errors import TfcliError, UsageError, shortened

lectures_app = typer.Typer()
_NAME = argument(metavar="LECTURE|IDEA", help="A lecture's name, or an idea's id: bishop, B10.")
_RUNS = typer.Option(metavar="FOLDER", help="The folder of the runs that some ideas look into.")


@lectures_app.command()
@command
def show(terminal: Terminal, name: Annotated[str | None, _NAME] = None, json: Json = False) -> None:
    """Show an idea: its commands, what you see, and the run that it needs.

    Of a lecture, its ideas and the slips that matter; without a name, which
    `tfcli lectures` alone does, the five lectures.

    Examples:

      tfcli lectures show B10
      tfcli lectures show udl
    """
    from tfcli.draw.tables import columns, to_json
    from tfcli.lectures import Idea, Lecture, lectures

    held, table = lectures(), columns("lw")
    found = held if name is None else held.named(shortened(name))
    if json:
        terminal.json(to_json(found))
    elif isinstance(found, Idea):
        table.add_row(found.id, f"{found.idea}\nSee: {found.see}.\n")
        terminal.show(table)
        terminal.text("\n".join(found.commands))
        if found.run:
            terminal.text("\nIt needs a run, which takes {minutes} to make:\n{command}".format(**held.runs[found.run]))
    elif isinstance(found, Lecture):
        slips = [("·", slip["is"]) for slip in found.slips]
        about, ideas = ("", f"{found.title}: {found.convention}\n"), [(idea.id, idea.idea) for idea in found.ideas]
        for cells in (about, *ideas, ("", "\nWhere a reader would be misled:"), *slips):
            table.add_row(*cells)
        terminal.show(table)
    else:
        for one in held.lectures:
            ids = f"{len(one.ideas):>2} ideas, {one.ideas[0].id} … {one.ideas[-1].id}"
            terminal.text(f"{one.name:<9} {one.title:<19} {ids}")
        terminal.note("One idea after the other: tfcli lectures run bishop. One of them: tfcli lectures show B10")


@lectures_app.command()
@command
def run(terminal: Terminal, name: Annotated[str, _NAME], runs: Annotated[Path, _RUNS] = Path("runs")) -> None:
    """Run the commands of every idea of a lecture, or of one idea.

    In a terminal each idea waits for Enter, and q ends; else all come at once.
    What needs a run that is not there says how to make it, and the next one
    follows. The exit code is 1 where a command failed, or nothing was shown.

    Examples:

      tfcli lectures run bishop
      tfcli lectures run B1
    """
    from tfcli.lectures import Idea, lectures
    from tfcli.runs.directory import is_run

    found = lectures().named(shortened(name))
    ideas, failed, missing = [found] if isinstance(found, Idea) else found.ideas, list[str](), list[str]()
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs} is no folder", "name the one that holds the runs")
    for number, idea in enumerate(ideas):
        if number and is_terminal() and is_terminal(sys.stdin):
            terminal.err.print(f"Enter: {idea.id}   q: end ", end="", style="dim", highlight=False)
            if sys.stdin.readline() != "\n":
                break
        terminal.show(f"{idea.id}   {idea.idea}\nSee: {idea.see}.")
        if idea.run and not is_run(place := runs / idea.run):
            how = lectures().runs[idea.run]
            terminal.message(f"It needs {place}, which is made in {how['minutes']}:\n{_in(runs, how['command'])}\n")
            missing += [idea.id]
        elif not all(_succeeds(terminal, _in(runs, line)) for line in idea.commands):
            failed.append(idea.id)
    if len(missing) == len(ideas):
        raise TfcliError(f"None of {', '.join(missing)} could be shown", "make the run named above")
    if failed:
        raise TfcliError(f"The commands of {', '.join(failed)} failed", "see what they say above")


def _in(runs: Path, line: str) -> str:
    """A command line whose runs are in this folder."""
    return re.sub(r"(?<= )runs(?=/)", lambda _: shlex.quote(str(runs)), line)


def _succeeds(terminal: Terminal, line: str) -> bool:
    """Run a command in this process, which has loaded already what the next one needs."""
    from tfcli.cli.main import commands

    terminal.message(f"\n$ {line}\n", "bold")
    words = [*shlex.split(line)[1:], "--color", terminal.color, *["--quiet"] * terminal.quiet]
    try:
        commands(words[0])(words, prog_name="tfcli")
    except SystemExit as ended:
        # A command that has come to its end gives None. By 0 nobody reads any more; above 128 a signal has stopped it.
        if ended.code == 0 or (isinstance(ended.code, int) and ended.code > 128):
            raise
        terminal.text("")
        return ended.code is None
    return True
