"""What was proved on a run: a row a check, which can be printed as soon as it is known."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import duration
from tfcli.draw.safe import printable
from tfcli.verification import Check, Status, Verification

_MARKS: dict[Status, tuple[str, str, str]] = {  # a sign, what stands for it in ASCII, and its style
    "passed": ("✓", "ok", "bold green"),
    "noted": ("•", "..", "bold yellow"),
    "failed": ("✗", "NO", "bold red"),
    "skipped": ("–", "--", "dim"),
}

_ASCII = str.maketrans({"≤": "<=", "−": "-", "—": "-", "·": "-", "√": "sqrt ", "ᵀ": "^T", "ₕ": "_h", "…": "..."})
"""What claims have for signs that a terminal may lack."""

_NAME, _FIGURE = 24, 22  # cells of a name, and of what was measured
_WIDE = 110  # cells from which name, claim and figure stand side by side


@dataclass(frozen=True)
class VerificationHeader:
    """Which run is looked at, and with what text."""

    run: str
    architecture: str
    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble((printable(self.run), "bold"), _spelled(f" · {self.architecture}", options))
        yield Text(f"read: {printable(self.text)}", "dim")
        yield _line(options)


class CheckRow(View[Check]):
    """One check: its mark, the claim in words, what was measured against what may be, and why it does not hold."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        check = self.record
        sign, letters, style = _MARKS[check.status]
        mark = Text(letters if options.ascii_only else sign, style)
        name = Text(printable(check.name), "dim" if check.status == "skipped" else "bold")
        claim = Text(_spelled(printable(check.claim), options), "dim")
        figure = Text(_spelled(_figure(check), options), style.removeprefix("bold "))
        why = Text(_spelled(printable(check.reason), options), "bold red" if check.status == "failed" else "yellow")
        own = Text(_spelled(_own(check), options), "dim")
        said = Text("\n").join(line for line in (claim, own, why) if line)
        wide, table = options.max_width >= _WIDE, Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(width=2, no_wrap=True)
        table.add_column(width=_NAME if wide else None, ratio=None if wide else 1)
        if wide:
            table.add_column(ratio=1)
        table.add_column(width=_FIGURE, justify="right", no_wrap=True)
        table.add_row(mark, name, *([said] if wide else []), figure)
        yield table
        if not wide:
            yield Padding(said, (0, 2, 0, 4)) if said else Text()


@dataclass(frozen=True)
class VerificationSummary:
    """How many checks there were of each kind, and how long they took."""

    verification: Verification
    seconds: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _line(options)
        for own in self.verification.precisions:
            said = (
                f"{own.precision}, not invariant: a pass is {own.away:.2g} of the largest number away from float64; of"
                f" {own.tokens} likeliest next tokens {own.other_tokens} are others, and behind a cache"
                f" {own.other_behind_cache} are others than at once"
            )
            yield Text(_spelled(said, options), "dim")
        text = Text()
        for status, (sign, letters, style) in _MARKS.items():
            count = sum(check.status == status for check in self.verification.checks)
            if count:
                text.append(f"{letters if options.ascii_only else sign} ", style)
                text.append(f"{count} {'proved' if status == 'passed' else status}   ", style.removeprefix("bold "))
        yield text + Text(f"in {duration(self.seconds)}", "dim")


def _figure(check: Check) -> str:
    """As "3.1e-15 ≤ 1e-09" or "2e-04 > 1e-09"; of what there may be none, the count: "0 texts" or "3 texts > 0"."""
    if check.measured is None or check.limit != 0:
        return _against(check.measured, check.limit)
    return f"{check.measured:g} {check.unit}" + (" > 0" if check.measured > 0 else "")


def _against(measured: float | None, limit: float | None) -> str:
    if measured is None or limit is None:
        return ""
    return f"{measured:.2g} {'≤' if measured <= limit else '>'} {limit:.2g}"


def _own(check: Check) -> str:
    """As in "as it generates: float32 2.1e-07 ≤ 1.4e-06 · bfloat16 0.0081 ≤ 0.03"."""
    figures = [f"{one.precision} {told}" for one in check.own if (told := _against(one.measured, one.limit))]
    return f"as it generates: {' · '.join(figures)}" if figures else ""


def _line(options: ConsoleOptions) -> RenderableType:
    return Rule(style="dim", characters="-" if options.ascii_only else "─")


def _spelled(text: str, options: ConsoleOptions) -> str:
    """The text in the signs that the terminal has."""
    return text.translate(_ASCII) if options.ascii_only else text
