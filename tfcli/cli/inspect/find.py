"""What ``tfcli inspect attention --find`` does: a head chosen on training texts, measured on held-out ones."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.cli.inspect.attention_options import Choice
from tfcli.cli.options import Outputs
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.runs.load import LoadedRun

FindText = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="none, with --find")
]
Find = Annotated[
    Literal["bank", "alignment"] | None,
    typer.Option(
        "--find",
        metavar="WHAT",
        help="bank or alignment: instead of a TEXT, the head that tells the senses apart, or aligns words.",
        show_default=False,
    ),
]


def require_text(text: str | None) -> str:
    """The text, which only --find goes without.

    Raises:
        UsageError: there is none.
    """
    from tfcli.errors import UsageError

    if text is None:
        raise UsageError("There is no TEXT to read", "give one, - for stdin, or let --find bank or alignment choose")
    return text


def require_alone(choice: Choice, others: dict[str, object]) -> None:
    """Refuse the first option beside --find, which chooses texts and head itself.

    Args:
        others: what is not in `choice`, by the names of the options.

    Raises:
        UsageError: names it.
    """
    from tfcli.errors import UsageError

    named = {f"--{name.replace('_', '-')}": value for name, value in asdict(choice).items()}
    for option, value in (others | named).items():
        if value not in (None, False, 0) or (value == 0 and option in ("--layer", "--head")):
            raise UsageError("--find chooses its texts and the head itself", f"leave {option} or --find out")


def show_found(terminal: Terminal, run: "LoadedRun", find: Literal["bank", "alignment"], outputs: Outputs) -> None:
    """Find the head and show it.

    Raises:
        UsageError: the run cannot have it.
    """

    if find == "bank":
        from tfcli.inspection.heads.find_bank import find_bank
        from tfcli.render.find import BankView, bank_table

        bank = find_bank(run)
        present(terminal, outputs, BankView(bank), bank, bank_table)
        return
    from tfcli.inspection.heads.find_alignment import find_alignment
    from tfcli.render.find import AlignmentView, alignment_table

    found = find_alignment(run)
    present(terminal, outputs, AlignmentView(found), found, alignment_table)
