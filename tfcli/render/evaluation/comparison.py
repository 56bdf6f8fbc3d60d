"""Two models on the same text: each score of both, and whether the difference may be chance."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from tfcli.records.evaluation import Difference, Scores
from tfcli.render.numbers import percent
from tfcli.render.safe import printable

_NAMES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "pseudo_perplexity": "pseudo-perplexity",
    "bits_per_byte": "bits per byte",
    "bits_per_character": "bits per character",
    "bleu": "BLEU",
    "chrf": "chrF",
    "exact_match": "exact match",
}
_DIGITS = {"pseudo_perplexity": 3, "bleu": 2, "chrf": 2}
_SHARES = ("accuracy", "exact_match")
_HIGHER_IS_BETTER = ("accuracy", "bleu", "chrf", "exact_match")
_LIKELY_CHANCE = 0.05


def model_name(scores: Scores) -> str:
    """The run, and the precision of its weights where it is not its own."""
    return printable(scores.run) + ("" if scores.precision == "float32" else f" in {scores.precision}")


def comparison_view(scores: Scores) -> Iterator[Text | Table]:
    """The runs by letter, a row a score, and what to beware of."""
    comparison = scores.comparison
    assert comparison is not None
    yield Text("Compared on the same text", style="bold")
    for letter, one in (("A", scores), ("B", comparison.scores)):
        yield Text.assemble((letter, "bold cyan"), f"  {model_name(one)}")
    yield _table(comparison.differences)
    if any(one.p_value is not None for one in comparison.differences):
        yield Text("Paired bootstrap, 1,000 resamples; p: how often chance alone differs as much", style="dim")
    for note in comparison.notes:
        yield Text(printable(note), style="yellow")


def _table(differences: tuple[Difference, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(5):
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_row(*(Text(name, "dim") for name in ("", "A", "B", "B − A", "95 % interval", "p", "")))
    for one in differences:
        interval = "-" if one.interval is None else " – ".join(_signed(one.score, end) for end in one.interval)
        p_value = "-" if one.p_value is None else f"{one.p_value:.3f}"
        table.add_row(
            Text(_NAMES[one.score]),
            Text(_value(one.score, one.first)),
            Text(_value(one.score, one.second)),
            Text(_signed(one.score, one.difference), "bold"),
            Text(interval),
            Text(p_value),
            _verdict(one),
        )
    return table


def _verdict(one: Difference) -> Text:
    if one.p_value is None:
        return Text()
    if one.difference == 0:
        return Text("equal", "dim")
    if one.p_value >= _LIKELY_CHANCE:
        return Text("chance?", "dim")
    better = (one.difference > 0) == (one.score in _HIGHER_IS_BETTER)
    return Text("B better" if better else "A better", "green")


def _value(score: str, value: float) -> str:
    return percent(value) if score in _SHARES else f"{value:.{_DIGITS.get(score, 4)}f}"


def _signed(score: str, value: float) -> str:
    text = f"{value * 100:+z.1f}" if score in _SHARES else f"{value:+z.{_DIGITS.get(score, 4)}f}"
    return text.replace("-", "−")
