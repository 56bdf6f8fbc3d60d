"""A recipe's limits beside what was measured."""

from rich.text import Text

from tfcli.records.pipeline import CheckResult


def check_line(result: CheckResult) -> Text:
    """One line: the limit, the figure, and whether it is met."""
    measured = "not measured" if result.measured is None else f"{result.measured:.4g}"
    word, style = ("met", "green") if result.passed else ("missed", "bold red")
    return Text.assemble(f"{result.name} {result.limit:g}: {measured}, ", (word, style))
